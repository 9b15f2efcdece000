import { fileURLToPath } from 'node:url'
import { es256kSigner, setupDidAuth } from 'express-did-auth'
import { createApp, addFallbacks, type ServerApp, type ServerAppParts } from '../http/create-app.js'
import { serveDocument } from '../openapi/document.js'
import {
  authRoutes,
  createDidAuthConfig,
  createDidAuthDependencies,
  optionalPaths,
  createResourceOptions,
  createSiweOptions
} from '../http/did-auth.js'
import { openServer, type StartServer } from '../process/start-server.js'
import { openEngine } from '../storage/engine.js'
import { addPage, loadPage, type Page } from './page.js'

/** Folder of the page that the build writes. */
const PAGE_FOLDER = fileURLToPath(new URL('./page', import.meta.url))

/** Starts the auth server. @throws StartError */
export const startAuth: StartServer = async (env, start) => {
  const { parts, serve } = await openServer(env, start, await openEngine(env, start.connections))
  const page = env.PAGE ? loadPage(PAGE_FOLDER, parts.log) : undefined
  if (page !== undefined) start.onPage(parts.serviceUrl)
  return () => serve(createAuthApp({ ...parts, page }))
}

/** Builds the reference auth server, with a page for users at the root path. The caller closes the store. */
export function createAuthApp(parts: ServerAppParts & { page?: Page | undefined }): ServerApp {
  const { env, page } = parts
  const signer = es256kSigner(parts.identity.privateKey)
  const routes = [...authRoutes, ...Object.values(optionalPaths), '/resource-token', '/.well-known']
  const app = createApp(parts, routes, createDidAuthDependencies(signer, env.RPC_URL))
  const { sessionPath, sessionsPath } = optionalPaths
  const options = { sessionPath, sessionsPath, siwe: createSiweOptions(parts), ...createResourceOptions(parts) }
  const requireDid = setupDidAuth(app, { ...createDidAuthConfig(parts, signer), ...options })
  app.get('/openapi.json', serveDocument('auth', parts.serviceUrl))
  app.get('/me', requireDid, (req, res) => {
    res.set('Cache-Control', 'no-store').json({ did: req.user?.did })
  })
  if (page !== undefined) addPage(app, page, parts)
  return { listener: addFallbacks(app, parts), ready: requireDid.ready, close: () => requireDid.close() }
}
