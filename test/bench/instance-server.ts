/**
 * Child process: an Express app on the PostgreSQL store. Asked, it tells its CPU time.
 *
 * Arguments: the URL of the database, and the size of the pool.
 */
import express from 'express'
import { didOfPrivateKey, es256kSigner, setupDidAuth } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { SERVICE_KEY, SERVICE_URL } from './variants.js'

const [url, poolSize] = process.argv.slice(2)

const app = express()
// The load names a client for each request: all of one address would share a quota, whose row would be hot.
app.set('trust proxy', true)
const ignore = (): void => undefined
const requireDid = setupDidAuth(app, {
  challengeSecret: 'secret of the benchmark, 32 bytes or more',
  serviceUrl: SERVICE_URL,
  serviceDid: await didOfPrivateKey(SERVICE_KEY),
  serviceSigner: es256kSigner(SERVICE_KEY),
  store: postgresStore(url!, { poolSize: Number(poolSize) }),
  // Never reached, and counted all the same.
  maxRequestsPerTimeSlot: 1_000_000,
  // No window and no token ends during a run.
  challengeExpirationTimeInSeconds: 86_400,
  accessTokenExpirationTimeInSeconds: 7_200,
  logger: { debug: ignore, info: ignore, warn: ignore, error: ignore }
})
await requireDid.ready
app.get('/guarded', requireDid, (_req, res) => {
  res.json({ hello: 'world' })
})

const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as { port: number }).port })
})
server.keepAliveTimeout = 600_000
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send?.({ cpuMicroseconds: user + system })
})
process.on('disconnect', () => process.exit(0))
