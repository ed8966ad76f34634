// The router of the consoles 4.19 to 4.21: React Router 5, which they share together with a layer for the API of version 6.
export { Link, useLocation, useNavigate, useParams, useSearchParams } from 'react-router-dom-v5-compat';
