// The router of the console. router.legacy.tsx is that of older consoles.
export { BrowserRouter, Link, Route, Routes, useParams } from 'react-router';
