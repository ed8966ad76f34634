// The router of the console, for all pages. router.legacy.ts is that of older consoles.
export { Link, useLocation, useNavigate, useParams, useSearchParams } from 'react-router';
