// The pages of single objects. They have much in common, and so are in one file.
export { RecoveryPage } from '../recovery/RecoveryPage';
export { MovePage } from '../moves/MovePage';
