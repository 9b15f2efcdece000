import type { DidAuthInfo } from './did-auth-info.js'

export type { DidAuthInfo }

declare global {
  // Express types are extended through this namespace.
  namespace Express {
    interface User {
      /** The DID as received at login. Look accounts up by `req.auth.canonicalDid`; ban keys by `req.auth.address`. */
      did: string
    }
    interface Request {
      /** The authenticated user. Set behind `requireDid`. */
      user?: User | undefined
    }
  }
}
