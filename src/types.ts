/**
 * Type of `req.auth` on every request of Express, for applications that once write
 * `import type {} from 'express-did-auth/types'`. Other packages declare `auth` with other types, so that it is an
 * entry of its own. At run time it is empty.
 */
import type { DidAuthInfo } from './express-types.js'

declare global {
  namespace Express {
    interface Request {
      /** Session, claims and comparable forms of the DID. Set behind `requireDid`. */
      auth?: DidAuthInfo | undefined
    }
  }
}

export type { DidAuthInfo }
