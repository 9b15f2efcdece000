/** Routes of the library, by the names that log and metrics give them. */
export const authRoutes: readonly string[] = [
  '/request-signup',
  '/signup',
  '/request-auth',
  '/auth',
  '/refresh-token',
  '/logout'
]
