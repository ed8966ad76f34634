// What the page has of React Router 5, whose types are those of React 17.
declare module 'react-router-dom' {
  export const BrowserRouter: import('react').ComponentType<{ children: import('react').ReactNode }>;
}
