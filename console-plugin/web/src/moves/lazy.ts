// Parts of several pages, which are loaded after them, all together: then they are in one file.
import { lazy } from 'react';

const load = () => import('./all');

export const ClaimMove = lazy(async () => ({ default: (await load()).ClaimMove }));
export const MoveAction = lazy(async () => ({ default: (await load()).MoveAction }));
export const MovesCard = lazy(async () => ({ default: (await load()).MovesCard }));
