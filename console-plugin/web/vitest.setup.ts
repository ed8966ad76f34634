import { configure } from '@testing-library/dom';

// What is waited for comes at once; the default of one second is too short for a busy machine.
configure({ asyncUtilTimeout: 15_000 });
