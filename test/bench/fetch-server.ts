/** Child process that serves the login by the adapter for the Fetch API: on Hono under Node, or on Bun. */
import { createRequire } from 'node:module'
import { createDidAuth, didOfPrivateKey, es256kSigner } from 'express-did-auth/fetch'
import { SERVICE_KEY, SERVICE_URL } from './wallets.js'

type Handler = (request: Request, clientAddress: string | undefined) => Promise<Response>

const fromSlow = createRequire(new URL('../slow/package.json', import.meta.url))
const didAuth = createDidAuth({
  challengeSecret: 'secret of the benchmark, 32 bytes or more',
  serviceUrl: SERVICE_URL,
  serviceDid: await didOfPrivateKey(SERVICE_KEY),
  serviceSigner: es256kSigner(SERVICE_KEY),
  maxRequestsPerTimeSlot: Infinity
})

/** Own routes of the application: bare ones, which read JSON where they are posted to, and a guarded one. */
const routes: Readonly<Record<string, Handler>> = {
  '/bare': async () => Response.json({ hello: 'world' }),
  '/guarded': async (request, clientAddress) => {
    await didAuth.authenticate(request, { clientAddress })
    return Response.json({ hello: 'world' })
  },
  '/bare-challenge': async (request) => {
    await request.json()
    return Response.json({ challenge: 'c'.repeat(64) })
  },
  '/bare-tokens': async (request) => {
    await request.json()
    return Response.json({ accessToken: 'a'.repeat(520), refreshToken: 'r'.repeat(43) })
  }
}

/** Parts of Hono and of Bun that this file uses. Both are installed with the packages of the slow tests. */
interface Context {
  req: { raw: Request }
}
interface HonoApp {
  use(handler: (c: Context, next: () => Promise<void>) => Promise<Response | undefined>): void
  all(path: string, handler: (c: Context) => Promise<Response>): void
  fetch: (request: Request) => Promise<Response>
}
interface BunRuntime {
  serve(options: {
    port: number
    hostname: string
    fetch: (request: Request, server: BunServer) => Promise<Response>
  }): { port: number }
}
interface BunServer {
  requestIP(request: Request): { address: string } | null
}

const notFound = async (): Promise<Response> => new Response(null, { status: 404 })
const bun = (globalThis as { Bun?: BunRuntime }).Bun
if (bun !== undefined) {
  const fetch = async (request: Request, server: BunServer): Promise<Response> => {
    const clientAddress = server.requestIP(request)?.address
    const own = routes[new URL(request.url).pathname]
    const response = own === undefined ? await didAuth.fetch(request, { clientAddress }) : undefined
    return response ?? (own ?? notFound)(request, clientAddress)
  }
  const { port } = bun.serve({ port: 0, hostname: '127.0.0.1', fetch })
  process.send?.({ port })
} else {
  const { Hono } = fromSlow('hono') as { Hono: new () => HonoApp }
  const { serve } = fromSlow('@hono/node-server') as { serve: (options: object, ready: (at: object) => void) => void }
  const { getConnInfo } = fromSlow('@hono/node-server/conninfo') as {
    getConnInfo: (c: Context) => { remote: { address: string } }
  }
  const app = new Hono()
  for (const [path, handle] of Object.entries(routes)) {
    app.all(path, (c) => handle(c.req.raw, getConnInfo(c).remote.address))
  }
  app.use(async (c, next) => {
    const response = await didAuth.fetch(c.req.raw, { clientAddress: getConnInfo(c).remote.address })
    if (response === undefined) await next()
    return response
  })
  serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, (address) => process.send?.(address))
}
// `servers.ts` asks for the resources used so far. Its own script for this runs only on Node.
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send?.({ cpuMicroseconds: user + system, rss: 0, used: 0 })
})
process.on('disconnect', () => process.exit())
