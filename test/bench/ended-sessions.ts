/**
 * P15: guarded GET at a service that reads the list of ended sessions, compared with a service that does not; and the
 * time from the answer of a logout to the first refusal at the other service.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { computeQuantile, measure, reportFigure } from './harness.js'
import { assertStatus, Connection, logIn } from './http-client.js'
import { measureStepCost, startServer, type Step } from './servers.js'
import { createFreshWallet, mintTokens } from './wallets.js'

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

const delays: number[] = []
const client = new Connection(reader.port)
for (let round = 0; round < LOGOUTS; round += 1) {
  const { accessToken } = await logIn(login, createFreshWallet())
  const header = `Authorization: DIDAuth ${accessToken}\r\n`
  assertStatus(await client.get('/guarded', header))
  // Logouts at any time between two polls.
  await pause(Math.random() * 2_000)
  assertStatus(await login.post('/logout', {}, header))
  const loggedOutAt = performance.now()
  while ((await client.get('/guarded', header)).status === 200) await pause(20)
  delays.push(performance.now() - loggedOutAt)
}
const [median, slowest] = [computeQuantile(delays, 0.5), computeQuantile(delays, 0.99)]
reportFigure(
  'P15 logout to refusal at another service',
  `p50 ${median.toFixed(0)} ms, p99 ${slowest.toFixed(0)} ms of ${LOGOUTS} logouts`,
  slowest <= GOAL_MILLISECONDS
)
login.close()
client.close()
await Promise.all([publisher, plain, reader].map((server) => server.stop()))
