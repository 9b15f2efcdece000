import { es256kSigner, setupDidAuth } from 'express-did-auth'
import { secureApp, withLastAnswers, type ServerApp, type ServerAppParts } from '../http/create-app.js'
import { serveDocument } from '../openapi/document.js'
import {
  authRoutes,
  didAuthConfig,
  didAuthDependencies,
  resourcesOf,
  sessionPath,
  sessionsPath,
  siweOf,
  siwePath
} from '../http/did-auth.js'
import { addPage, type Page } from './page.js'

/** What the auth server is built of. */
export interface AuthServerParts extends ServerAppParts {
  /** For people, at the root. */
  page?: Page | undefined
}

/** Builds the reference auth server. The store is its giver's to close. */
export function authApp(parts: AuthServerParts): ServerApp {
  const { env, page } = parts
  const signer = es256kSigner(parts.identity.privateKey)
  const routes = [...authRoutes, sessionPath, sessionsPath, siwePath, '/resource-token', '/.well-known']
  const app = secureApp(parts, routes, didAuthDependencies(env, signer))
  const paths = { sessionPath, sessionsPath }
  const others = { siwe: siweOf(parts), ...resourcesOf(parts) }
  const requireDid = setupDidAuth(app, { ...didAuthConfig(parts, signer), ...paths, ...others })
  app.get('/openapi.json', serveDocument('auth', parts.serviceUrl))
  app.get('/me', requireDid, (req, res) => {
    res.set('Cache-Control', 'no-store').json({ did: req.user?.did })
  })
  if (page !== undefined) addPage(app, page, parts)
  return { listener: withLastAnswers(app, parts), ready: requireDid.ready, close: () => requireDid.close() }
}
