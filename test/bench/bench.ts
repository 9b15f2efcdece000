/**
 * `npm run bench`: what our routes cost beside bare Express and beside siwe with express-session, in one run.
 *
 * The cost of a request is CPU time of the server process, so that the load generator and other work on the machine
 * weigh little. P1 compares two routes of one application, the others two applications. A bare POST is a route with `express.json()` and `res.json()`. Ratios are medians of rounds that alternate between the variants. Nothing here is a gate.
 */
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getAddress } from 'ethers'
import secp256k1 from 'secp256k1'
import { benchWallet, type BenchWallet } from './bench-wallet.js'
import { Connection } from './http-client.js'
import { measureImport } from './bench-import.js'
import { compareLatency } from './bench-latency.js'
import { median } from './median.js'
import { mintTokens } from './mint-tokens.js'
import { memoryFigures } from './figures-stores.js'
import { benchRelay } from './bench-relay.js'
import { startVariant, type BenchServer } from './variants.js'

const [chosenVariant, chosenFigure] = process.argv.slice(2)
const CONNECTIONS = 16
const ROUNDS = 5

type Step = (connection: Connection, worker: number, index: number) => Promise<void>

/** Runs `total` steps over 16 connections and answers the server's CPU time per step in microseconds. */
async function costOf(server: BenchServer, total: number, step: Step): Promise<number> {
  const connections = await Promise.all(Array.from({ length: CONNECTIONS }, () => Connection.open(server.port)))
  const before = await server.cpuMicroseconds()
  let next = 0
  await Promise.all(
    connections.map(async (connection, worker) => {
      while (next < total) await step(connection, worker, next++)
    })
  )
  const after = await server.cpuMicroseconds()
  for (const connection of connections) connection.close()
  return (after - before) / total
}

function assertStatus(answer: { status: number; body: string }, status = 200): void {
  if (answer.status !== status) throw new Error(`expected ${status}, got ${answer.status}: ${answer.body}`)
}

// The same request in all respects, so that what is compared is the guard and not the length of a header.
const anyToken = mintTokens(1)[0]!
const getBare: Step = async (connection) => {
  assertStatus(await connection.get('/bare', `Authorization: DIDAuth ${anyToken}\r\n`))
}
const getGuarded =
  (tokens: readonly string[]): Step =>
  async (connection, _worker, index) => {
    assertStatus(await connection.get('/guarded', `Authorization: DIDAuth ${tokens[index % tokens.length]!}\r\n`))
  }

let walletNumber = 1
const bareWallet = benchWallet(walletNumber++)
const freshWallets = (count: number): BenchWallet[] => Array.from({ length: count }, () => benchWallet(walletNumber++))

async function logIn(
  connection: Connection,
  wallet: BenchWallet
): Promise<{ accessToken: string; refreshToken: string }> {
  const answer = await connection.post('/request-auth', { did: wallet.did })
  const { challenge } = JSON.parse(answer.body) as { challenge: string }
  const sig = wallet.personalSign(`Login to bench.example\nVerification code: ${challenge}`)
  const tokens = await connection.post('/auth', { did: wallet.did, sig })
  // A window may end between challenge and login: ask again, as every client does.
  if (tokens.body.endsWith(': expired')) return logIn(connection, wallet)
  assertStatus(tokens)
  return JSON.parse(tokens.body) as { accessToken: string; refreshToken: string }
}

const barePost =
  (path: string): Step =>
  async (connection) => {
    assertStatus(await connection.post(path, { refreshToken: 'r'.repeat(43) }))
  }
// The client works as much as in a real login: how long it is busy decides how often the kernel has to wake somebody.
const bareLogin =
  (kind: 'bare' | 'drained'): Step =>
  async (connection) => {
    const answer = await connection.post(`/${kind}-challenge`, { did: bareWallet.did })
    const { challenge } = JSON.parse(answer.body) as { challenge: string }
    const sig = bareWallet.personalSign(`Login to bench.example\nVerification code: ${challenge}`)
    const tokens = await connection.post(`/${kind}-tokens`, { did: bareWallet.did, sig })
    assertStatus(tokens)
    JSON.parse(tokens.body)
  }

interface Contest {
  name: string
  goal: string
  bare: () => Promise<number>
  ours: () => Promise<number>
}

/** Alternates the two and prints the medians: cost of both, and the ratio bare / ours. */
async function compare({ name, goal, bare, ours }: Contest): Promise<void> {
  if (chosenFigure !== undefined && !name.startsWith(chosenFigure)) return
  const bareCosts: number[] = []
  const ourCosts: number[] = []
  const ratios: number[] = []
  for (let round = 0; round <= ROUNDS; round++) {
    const bareCost = await bare()
    const ourCost = await ours()
    if (round === 0) continue // warm-up
    bareCosts.push(bareCost)
    ourCosts.push(ourCost)
    ratios.push(bareCost / ourCost)
  }
  const figures = `${median(bareCosts).toFixed(1)} / ${median(ourCosts).toFixed(1)} µs CPU`
  console.log(`${name.padEnd(58)} ${median(ratios).toFixed(2).padStart(5)}  (goal ${goal}; bare / ours ${figures})`)
}

async function benchServer(label: string, ours: BenchServer, bare: BenchServer): Promise<void> {
  const setup = await Connection.open(ours.port)
  const seen: string[] = []
  for (const wallet of freshWallets(CONNECTIONS)) seen.push((await logIn(setup, wallet)).accessToken)
  await compare({
    name: `P1 guarded GET, token seen before, ${label}`,
    goal: '>= 0.90',
    bare: () => costOf(ours, 15_000, getBare),
    ours: () => costOf(ours, 15_000, getGuarded(seen))
  })
  await compare({
    name: `P1 guarded GET, token first seen, ${label}`,
    goal: '>= 0.40',
    bare: () => costOf(ours, 6_000, getBare),
    ours: () => costOf(ours, 6_000, getGuarded(mintTokens(6_000)))
  })
  const logInFresh = (): Promise<number> => {
    const wallets = freshWallets(4_000)
    return costOf(ours, 4_000, async (connection, _worker, index) => {
      await logIn(connection, wallets[index]!)
    })
  }
  const refreshTokens: string[] = []
  for (const wallet of freshWallets(CONNECTIONS)) refreshTokens.push((await logIn(setup, wallet)).refreshToken)
  const refresh = (): Promise<number> =>
    costOf(ours, 5_000, async (connection, worker) => {
      const answer = await connection.post('/refresh-token', { refreshToken: refreshTokens[worker]! })
      assertStatus(answer)
      refreshTokens[worker] = (JSON.parse(answer.body) as { refreshToken: string }).refreshToken
    })
  await compare({
    name: `P2 challenge + login, ${label}`,
    goal: '>= 0.60',
    bare: () => costOf(bare, 4_000, bareLogin('bare')),
    ours: logInFresh
  })
  await compare({
    name: `P2 the same over routes that do not read their body`,
    goal: 'none',
    bare: () => costOf(bare, 4_000, bareLogin('drained')),
    ours: logInFresh
  })
  await compare({
    name: `P3 refresh, ${label}`,
    goal: '>= 0.65',
    bare: () => costOf(bare, 5_000, barePost('/bare-tokens')),
    ours: refresh
  })
  await compare({
    name: `P3 the same over a route that does not read its body`,
    goal: 'none',
    bare: () => costOf(bare, 5_000, barePost('/drained-tokens')),
    ours: refresh
  })
  setup.close()
  if (chosenFigure === undefined || chosenFigure === 'P4') await compareLatency(label, ours, bare)
}

/** The same work by siwe and express-session, beside the same bare routes. */
async function benchSiwe(siwe: BenchServer, bare: BenchServer): Promise<void> {
  const connection = await Connection.open(siwe.port)
  const cookies: string[] = []
  for (const wallet of freshWallets(CONNECTIONS)) cookies.push(await logInWithSiwe(connection, wallet))
  await compare({
    name: 'P1 guarded GET, siwe + express-session',
    goal: 'none, for comparison',
    bare: () => costOf(bare, 10_000, getBare),
    ours: () =>
      costOf(siwe, 10_000, async (open, worker) => {
        assertStatus(await open.get('/guarded', `Cookie: ${cookies[worker]!}\r\n`))
      })
  })
  await compare({
    name: 'P2 challenge + login, siwe + express-session',
    goal: 'none, for comparison',
    bare: () => costOf(bare, 1_000, bareLogin('bare')),
    ours: () => {
      const wallets = freshWallets(1_000)
      return costOf(siwe, 1_000, async (open, _worker, index) => {
        await logInWithSiwe(open, wallets[index]!)
      })
    }
  })
  connection.close()
}

async function logInWithSiwe(connection: Connection, wallet: BenchWallet): Promise<string> {
  const first = await connection.post('/request-auth', {})
  const cookie = /set-cookie: ([^;]+)/i.exec(first.headers)![1]!
  const { challenge } = JSON.parse(first.body) as { challenge: string }
  const message = [
    'bench.example wants you to sign in with your Ethereum account:',
    `${getAddress(wallet.address)}\n\n`,
    `URI: https://bench.example\nVersion: 1\nChain ID: 30\nNonce: ${challenge}\nIssued At: ${new Date().toISOString()}`
  ].join('\n')
  const signature = wallet.personalSign(message)
  assertStatus(await connection.post('/auth', { message, signature }, `Cookie: ${cookie}\r\n`))
  return cookie
}

const wasmOnly = [
  '--import',
  `data:text/javascript,${encodeURIComponent(
    `import { register } from 'node:module'
     register('data:text/javascript,' + encodeURIComponent(
       "export async function resolve(s, c, n) { if (s.startsWith('secp256k1/')) throw new Error('hidden'); return n(s, c) }"))`
  )}`
]

secp256k1.contextRandomize(Buffer.alloc(32, 1))
console.log(`Node ${process.version}; ratio = CPU of bare Express / CPU of ours, medians of ${ROUNDS} rounds`)
const bare = await startVariant('bare')
const isChosen = (variant: string): boolean => chosenVariant === undefined || ['all', variant].includes(chosenVariant)

if (isChosen('native')) {
  const server = await startVariant('did-auth')
  await benchServer('memory, native', server, bare)
  server.stop()
}
if (isChosen('wasm')) {
  const server = await startVariant('did-auth', [], wasmOnly)
  await benchServer('memory, WASM', server, bare)
  server.stop()
}
if (isChosen('sqlite')) {
  const server = await startVariant('did-auth-sqlite', [join(mkdtempSync(join(tmpdir(), 'did-auth-')), 'bench.db')])
  await benchServer('SQLite, native', server, bare)
  server.stop()
}
if (isChosen('siwe')) {
  const server = await startVariant('siwe')
  await benchSiwe(server, bare)
  server.stop()
}
bare.stop()
if (isChosen('relay')) {
  await benchRelay('embedded')
  await benchRelay('node')
}
if (isChosen('vault')) await import('./bench-vault.js')
if (isChosen('import')) {
  measureImport()
  await memoryFigures()
}
