// The router of the consoles 4.19 to 4.21: version 5, with the layer in which they have their routes.
import type { ReactNode } from 'react';
import { BrowserRouter as Router } from 'react-router-dom';
import { CompatRouter } from 'react-router-dom-v5-compat';

export { Link, Route, Routes, useParams } from 'react-router-dom-v5-compat';

export const BrowserRouter = ({ children }: { children: ReactNode }) => (
  <Router>
    <CompatRouter>{children}</CompatRouter>
  </Router>
);
