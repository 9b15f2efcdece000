/**
 * P15: guarded GET at a service that reads the list of ended sessions, compared with a service that does not; and the
 * time from the answer of a logout to the first refusal at another service, the vault and a Worker.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { didOfPrivateKey } from 'express-did-auth'
import { startGuardWorker } from '../support/engines/workerd.js'
import { temporaryFolder } from '../support/fixtures/store-folder.js'
import { computeQuantile, measure, reportFigure } from './harness.js'
import { assertStatus, Connection, logIn } from './http-client.js'
import { measureStepCost, startBin, startServer, type Step } from './servers.js'
import { createFreshWallet, mintTokens, SERVICE_KEY, SERVICE_URL } from './wallets.js'

const LOGOUTS = 50
const GOAL_MILLISECONDS = 2_500

const publisher = await startServer('publisher')
const plain = await startServer('verifier')
const url = `http://127.0.0.1:${publisher.port}/.well-known/ended-sessions`
const reader = await startServer('verifier-with-list', [url])

const login = new Connection(publisher.port)
// The list has sessions, so that each request looks its session up.
for (let count = 0; count < 100; count += 1) {
  const { accessToken } = await logIn(login, createFreshWallet())
  assertStatus(await login.post('/logout', {}, `Authorization: DIDAuth ${accessToken}\r\n`))
}
const tokens = mintTokens(16)
const get: Step = async (connection, index) => {
  assertStatus(await connection.get('/guarded', `Authorization: DIDAuth ${tokens[index % tokens.length]!}\r\n`))
}
await measure(
  'P15 guarded GET with the list of ended sessions over one without',
  { goal: '>= 0.98', unit: 'µs CPU' },
  { without: () => measureStepCost(plain, 15_000, get), with: () => measureStepCost(reader, 15_000, get) }
)

/** A service that accepts tokens of sessions of a publisher, and connections to both. */
interface Target {
  service: string
  publisherPort: number
  servicePort: number
  path: string
  /** Creates the Authorization for the service from the access token. */
  createAuthorization?: (login: Connection, accessToken: string) => Promise<string>
}

/** Measures the time from the answer of a logout to the first refusal, for logouts at any time between two polls. */
async function measureRefusals({ service, publisherPort, servicePort, path, ...target }: Target): Promise<void> {
  const [login, client] = [new Connection(publisherPort), new Connection(servicePort)]
  const delays: number[] = []
  for (let round = 0; round < LOGOUTS; round += 1) {
    const { accessToken } = await logIn(login, createFreshWallet())
    const authorization = await (target.createAuthorization?.(login, accessToken) ?? `DIDAuth ${accessToken}`)
    const header = `Authorization: ${authorization}\r\n`
    assertStatus(await client.get(path, header))
    await pause(Math.random() * 2_000)
    assertStatus(await login.post('/logout', {}, `Authorization: DIDAuth ${accessToken}\r\n`))
    const loggedOutAt = performance.now()
    for (let answer = await client.get(path, header); answer.status !== 401; answer = await client.get(path, header)) {
      assertStatus(answer)
      await pause(20)
    }
    delays.push(performance.now() - loggedOutAt)
  }
  login.close()
  client.close()
  const [median, slowest] = [computeQuantile(delays, 0.5), computeQuantile(delays, 0.99)]
  reportFigure(
    `P15 logout to refusal at ${service}`,
    `p50 ${median.toFixed(0)} ms, p99 ${slowest.toFixed(0)} ms of ${LOGOUTS} logouts`,
    slowest <= GOAL_MILLISECONDS
  )
}

const folder = temporaryFolder()
const ports = { AUTH_PORT: '0', RELAY_PORT: '0', VAULT_PORT: '0' }
const all = await startBin('all', { DATA_DIR: folder.path, ...ports, LOGIN_DOMAINS: 'bench.example' })
const [auth, , vault] = all.servers
const readPort = (server: typeof auth): number => Number(new URL(server!.url).port)
const createVaultAuthorization: Target['createAuthorization'] = async (connection, accessToken) => {
  const header = `Authorization: DIDAuth ${accessToken}\r\n`
  const answer = await connection.post('/resource-token', { resource: vault!.serviceUrl }, header)
  return `Bearer ${(JSON.parse(assertStatus(answer).body) as { accessToken: string }).accessToken}`
}
const worker = await startGuardWorker({ issuer: await didOfPrivateKey(SERVICE_KEY), audience: SERVICE_URL, url })
const atPublisher = { publisherPort: publisher.port, path: '/guarded' }
// The services do not compete: each of them is idle most of the time.
await Promise.all([
  measureRefusals({ service: 'another service', servicePort: reader.port, ...atPublisher }),
  measureRefusals({ service: 'a Worker', servicePort: worker.port, ...atPublisher }),
  measureRefusals({
    service: 'the vault',
    publisherPort: readPort(auth),
    servicePort: readPort(vault),
    path: '/storage',
    createAuthorization: createVaultAuthorization
  })
])
login.close()
await Promise.all([publisher, plain, reader, all, worker].map((server) => server.stop()))
folder.remove()
