import { es256kSigner, setupDidAuth, type Store } from 'express-did-auth'
import { appShell, sealed, type ServerApp, type ShellParts } from '../shared/http/app-shell.js'
import { errorSender } from '../shared/http/server-error.js'
import { authRoutes } from '../shared/login/auth-routes.js'
import { didAuthConfig, didAuthDependencies } from '../shared/login/did-auth.js'

/** What the auth server is built of. */
export interface AuthServerParts extends ShellParts {
  store: Store
}

/** Builds the reference auth server. The store is its giver's to close. */
export function authApp(parts: AuthServerParts): ServerApp {
  const { env, store } = parts
  const signer = es256kSigner(parts.identity.privateKey)
  const app = appShell(parts, authRoutes, didAuthDependencies(env, store, signer))
  const requireDid = setupDidAuth(app, didAuthConfig(parts, store, signer))
  app.get('/me', requireDid, (req, res) => {
    res.set('Cache-Control', 'no-store').json({ did: req.user?.did })
  })
  const sendError = errorSender(parts.serviceUrl, parts.log)
  return { listener: sealed(app, sendError), ready: requireDid.ready, close: () => requireDid.close() }
}
