import type { PostgresDatabase } from 'express-did-auth/stores/postgres'
import request from 'supertest'
import { Connections } from '../../../servers/content/connections.js'
import { Metrics } from '../../../servers/observability/metrics.js'
import { HandMadeNode } from '../faults/hand-made-node.js'
import { createForm, createMachine, ORDERS } from '../fixtures/machines.js'
import { createNumberedWallet } from '../fixtures/fixtures.js'
import { until } from '../fixtures/until.js'
import { logIn as logInAtRelay, postFile, startTestRelay } from './relay-app.js'
import { signedLogin } from './server-client.js'
import { closeServices, logIn, post, refresh, serving } from './server-client.js'
import { testAuthServer } from './test-app.js'
import { testVault, VaultUser } from './vault-app.js'

/** Series of a scrape: the labels of each, by name. */
export type Series = ReadonlyMap<string, readonly Readonly<Record<string, string>>[]>

/** Runs the three servers with traffic of all kinds, and returns the text of a scrape. */
export async function scrapeUnderTraffic(): Promise<string> {
  const metrics = new Metrics()
  const connections = new Connections()
  const stats = { total: 4, idle: 3, waiting: 0, retriesByCode: { '40001': 2 } }
  // Only the numbers of the database are read.
  connections.database = { stats } as unknown as PostgresDatabase
  connections.watch(metrics)
  const node = new HandMadeNode()
  const auth = await testAuthServer({ MACHINE_LOGIN: 'true', RESOURCES: ORDERS }, { metrics })
  const relay = await startTestRelay({}, { metrics, node })
  const vault = await testVault({ VAULT_MAX_STORE_BYTES: '1000000000' }, { metrics, node })
  try {
    const url = await serving(auth.listener)
    const wallet = createNumberedWallet(1)
    const { refreshToken, accessToken } = await logIn(url, wallet, 'auth.example')
    await refresh(url, refreshToken)
    await refresh(url, 'unknown')
    await post(`${url}/auth`, await signedLogin(url, createNumberedWallet(2), 'other.example'))
    await post(`${url}/signup`, {})
    await post(`${url}/siwe/verify`, {})
    await request(auth.listener)
      .post('/token')
      .type('form')
      .send(createForm(createMachine(1).assert()))
    await post(`${url}/logout`, {}, { Authorization: `DIDAuth ${accessToken}` })
    for (const path of ['/me', '/health', '/ready', '/nothing']) await request(auth.listener).get(path)
    await postFile(relay, await logInAtRelay(relay, wallet), 'a file')
    const user = await VaultUser.new(vault)
    await user.post('notes', 'a note')
    await user.read('notes')
    const isComplete = (text: string): boolean => /task="sweep"/.test(text) && /task="collector"/.test(text)
    await until(async () => isComplete((await metrics.read()).text))
    return (await metrics.read()).text
  } finally {
    closeServices()
    await Promise.all([relay.end(), vault.close()])
  }
}

/** Parses a scrape. Series of histograms have the names that Prometheus stores. */
export function parseScrape(text: string): Series {
  const series = new Map<string, Record<string, string>[]>()
  for (const line of text.split('\n')) {
    const [, name, labels = ''] = /^(\w+)(?:\{(.*)\})? \S+$/.exec(line) ?? []
    if (name === undefined) continue
    const parsed = Object.fromEntries(
      [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, label, value]) => [label!, value!])
    )
    series.set(name, [...(series.get(name) ?? []), parsed])
  }
  return series
}
