import { fileURLToPath } from 'node:url'
import { es256kSigner, setupDidAuth } from 'express-did-auth'
import { createApp, addFallbacks, type ServerApp, type ServerAppParts } from '../http/create-app.js'
import { serveDocument } from '../openapi/document.js'
import {
  authRoutes,
  createDidAuthConfig,
  createDidAuthDependencies,
  createMachineOptions,
  optionalPaths,
  createResourceOptions,
  createSiweOptions,
  hasEndedSessionList
} from '../http/did-auth.js'
import type { ServerOpener } from '../process/start-server.js'
import { openEngine } from '../content/engine.js'
import { addPage, loadPage, type Page } from './page.js'

/** Folder of the page that the build writes. */
const PAGE_FOLDER = fileURLToPath(new URL('../page', import.meta.url))

/** Opens the storage of the auth server. @throws StartError */
export const openAuth: ServerOpener = async (env, connections) => ({
  engine: await openEngine(env, connections),
  build: (parts) => createAuthApp({ ...parts, page: env.PAGE ? loadPage(PAGE_FOLDER, parts.log) : undefined })
})

/** Builds the reference auth server, with a page for users at the root path. The caller closes the store. */
export function createAuthApp(parts: ServerAppParts & { page?: Page | undefined }): ServerApp {
  const { env, page } = parts
  const signer = es256kSigner(parts.identity.privateKey)
  const routes = [...authRoutes, ...Object.values(optionalPaths), '/resource-token', '/token', '/.well-known']
  const app = createApp(parts, routes, createDidAuthDependencies(signer, env.RPC_URL))
  const { sessionPath, sessionsPath } = optionalPaths
  const siwe = createSiweOptions(parts)
  const endedSessions = hasEndedSessionList(env, parts.store)
  const options = { sessionPath, sessionsPath, siwe, endedSessions, ...createResourceOptions(parts) }
  const machines = createMachineOptions(env)
  const requireDid = setupDidAuth(app, { ...createDidAuthConfig(parts, signer), ...options, ...machines })
  app.get('/openapi.json', serveDocument('auth', parts.serviceUrl))
  app.get('/me', requireDid, (req, res) => {
    res.set('Cache-Control', 'no-store').json({ did: req.user?.did })
  })
  if (page !== undefined) addPage(app, page, parts)
  const pageUrl = page && parts.serviceUrl
  return { listener: addFallbacks(app, parts), ready: requireDid.ready, pageUrl, close: () => requireDid.close() }
}
