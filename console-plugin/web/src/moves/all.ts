// What is loaded after a page: see lazy.ts.
export { ClaimMove } from './ClaimMove';
export { MoveAction } from './MoveAction';
export { MovesCard } from './MovesCard';
