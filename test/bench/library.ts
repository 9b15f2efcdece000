/**
 * P1 to P4, P10, P13, P14 and P18: the library on Express compared with bare Express, and with siwe and
 * express-session. The cost of a request is CPU time of the server process, so that the load generator and other
 * processes have little influence. P1 compares two routes of one application. The other figures compare two
 * applications.
 */
import { join } from 'node:path'
import { getAddress } from 'ethers'
import { temporaryFolder } from '../support/fixtures/store-folder.js'
import { isChosen, measure, measureTimes, applyOpenLoad, computeQuantile, reportTimes } from './harness.js'
import {
  assertStatus,
  BARE,
  Connection,
  ConnectionPool,
  DRAINED,
  logIn,
  type LoginPaths,
  type Tokens
} from './http-client.js'
import { measureStepCost, startLoad, startServer, type BenchServer, type Step } from './servers.js'
import { createFreshWallets, createMachineForms, mintTokens, RESOURCE, type BenchWallet } from './wallets.js'

const CLIENTS = 16
const unit = 'µs CPU'

// Both requests are identical, so that the comparison measures the guard and not the length of a header.
const getWith =
  (path: string, tokens: readonly string[]): Step =>
  async (connection, index) => {
    assertStatus(await connection.get(path, `Authorization: DIDAuth ${tokens[index % tokens.length]!}\r\n`))
  }
const getBare = getWith('/bare', mintTokens(1))

// The client computes as much as in a real login, because its pace decides how often the kernel wakes the server.
const logins = (server: BenchServer, count: number, paths?: LoginPaths): Promise<number> => {
  const wallets = createFreshWallets(count)
  return measureStepCost(server, count, (connection, index) => logIn(connection, wallets[index]!, paths))
}

/** Returns a step in which each worker exchanges its own refresh token. */
const refreshWith =
  (tokens: Tokens[]): Step =>
  async (connection, _index, worker) => {
    const { refreshToken } = tokens[worker]!
    tokens[worker] = JSON.parse(assertStatus(await connection.post('/refresh-token', { refreshToken })).body) as Tokens
  }

async function logInAll(server: BenchServer): Promise<Tokens[]> {
  const connection = new Connection(server.port)
  const tokens: Tokens[] = []
  for (const wallet of createFreshWallets(CLIENTS)) tokens.push(await logIn(connection, wallet))
  connection.close()
  return tokens
}

async function measureLibrary(label: string, ours: BenchServer, bare: BenchServer): Promise<void> {
  const [cached, refreshed] = [await logInAll(ours), await logInAll(ours)]
  const accessTokens = cached.map(({ accessToken }) => accessToken)
  await measure(
    `P1 guarded GET, token seen before, ${label}`,
    { goal: '>= 0.90', unit },
    {
      bare: () => measureStepCost(ours, 15_000, getBare),
      ours: () => measureStepCost(ours, 15_000, getWith('/guarded', accessTokens))
    }
  )
  await measure(
    `P1 guarded GET, token first seen, ${label}`,
    { goal: '>= 0.40', unit },
    {
      bare: () => measureStepCost(ours, 6_000, getBare),
      ours: () => measureStepCost(ours, 6_000, getWith('/guarded', mintTokens(6_000)))
    }
  )
  for (const [paths, what, goal] of [
    [BARE, label, '>= 0.60'],
    [DRAINED, 'over routes that do not read their body', 'none']
  ] as const) {
    await measure(
      `P2 challenge + login, ${what}`,
      { goal, unit },
      { bare: () => logins(bare, 4_000, paths), ours: () => logins(ours, 4_000) }
    )
  }
  await measure(
    `P13 nonce + verify (EIP-4361) over challenge + login, ${label}`,
    { goal: '>= 0.95', unit },
    {
      login: () => logins(ours, 2_000),
      siwe: () => {
        const wallets = createFreshWallets(2_000)
        return measureStepCost(ours, 2_000, (connection, index) => logInByMessage(connection, wallets[index]!))
      }
    }
  )
  const resource = { resource: RESOURCE }
  await measure(
    `P14 resource token over refresh, ${label}`,
    { goal: '>= 0.90', unit },
    {
      refresh: () => measureStepCost(ours, 5_000, refreshWith(refreshed)),
      token: () =>
        measureStepCost(ours, 5_000, async (connection, index) => {
          const header = `Authorization: DIDAuth ${accessTokens[index % CLIENTS]!}\r\n`
          assertStatus(await connection.post('/resource-token', resource, header))
        })
    }
  )
  for (const [machines, what] of [
    [CLIENTS, 'known machines'],
    [2_000, 'new machines']
  ] as const) {
    await measure(
      `P18 machine token over challenge + login, ${what}, ${label}`,
      { goal: '>= 0.80', unit },
      {
        login: () => logins(ours, 2_000),
        token: () => {
          const forms = createMachineForms(2_000, machines)
          const type = 'application/x-www-form-urlencoded'
          return measureStepCost(ours, 2_000, async (connection, index) => {
            assertStatus(await connection.write('POST', '/token', forms[index]!, '', type))
          })
        }
      }
    )
  }
  for (const [[, path], what, goal] of [
    [BARE, label, '>= 0.65'],
    [DRAINED, 'over a route that does not read its body', 'none']
  ] as const) {
    await measure(
      `P3 refresh, ${what}`,
      { goal, unit },
      {
        bare: () =>
          measureStepCost(bare, 5_000, async (connection) => {
            assertStatus(await connection.post(path, { refreshToken: 'r'.repeat(43) }))
          }),
        ours: () => measureStepCost(ours, 5_000, refreshWith(refreshed))
      }
    )
  }
  if (isChosen('P4')) await measureWaiting(label, ours, bare)
}

/**
 * Measures P4: latency of a bare GET during logins, compared with a bare GET during as many pairs of bare POST
 * requests. Both loads have a fixed rate. The control compares the bare server with and without these pairs, because
 * they slow down any server.
 */
async function measureWaiting(label: string, ours: BenchServer, bare: BenchServer): Promise<void> {
  const [rounds, gets, loginsPerSecond, limit] = [3, 2_400, 100, 1.2]
  const measureGets = async (server: BenchServer): Promise<number[]> => {
    const pool = new ConnectionPool(server.port)
    const milliseconds = await applyOpenLoad(200, gets / rounds, () =>
      pool.use((connection) => connection.get('/bare'))
    )
    pool.close()
    return milliseconds
  }
  const { milliseconds, load } = await measureTimes(rounds, {
    quiet: { measure: () => measureGets(bare) },
    bare: { begin: () => startLoad(bare.port, 'bareLogins', loginsPerSecond), measure: () => measureGets(bare) },
    ours: { begin: () => startLoad(ours.port, 'logins', loginsPerSecond), measure: () => measureGets(ours) }
  })
  const p50 = (name: keyof typeof milliseconds): number => computeQuantile(milliseconds[name], 0.5)
  const [ratio, control] = [p50('ours') / p50('bare'), p50('bare') / p50('quiet')]
  const times = (['quiet', 'bare', 'ours'] as const).map(
    (name) => `${name} ${p50(name).toFixed(2)} (p99 ${computeQuantile(milliseconds[name], 0.99).toFixed(1)})`
  )
  const what = `p50 of ${gets} bare GET next to ${loginsPerSecond} logins/s over the same next to bare routes, ${label}`
  const text = `${ratio.toFixed(2)} × (goal <= ${limit}; control ${control.toFixed(2)} ×; ${times.join(', ')} ms)`
  reportTimes('P4', `${what}: ${text}`, { isMet: ratio <= limit, isControlMet: control <= limit, load })
}

async function measureSiwe(siwe: BenchServer, bare: BenchServer): Promise<void> {
  const connection = new Connection(siwe.port)
  const cookies: string[] = []
  for (const wallet of createFreshWallets(CLIENTS)) cookies.push(await logInWithSiwe(connection, wallet))
  connection.close()
  const comparison = { goal: 'none, for comparison', unit }
  await measure('P1 guarded GET, siwe + express-session', comparison, {
    bare: () => measureStepCost(bare, 10_000, getBare),
    ours: () =>
      measureStepCost(siwe, 10_000, async (open, _index, worker) => {
        assertStatus(await open.get('/guarded', `Cookie: ${cookies[worker]!}\r\n`))
      })
  })
  await measure('P2 challenge + login, siwe + express-session', comparison, {
    bare: () => logins(bare, 1_000, BARE),
    ours: () => {
      const wallets = createFreshWallets(1_000)
      return measureStepCost(siwe, 1_000, (open, index) => logInWithSiwe(open, wallets[index]!))
    }
  })
}

/** Returns a message of EIP-4361, as a wallet shows it, with its signature. */
function signedMessage(wallet: BenchWallet, nonce: string): { message: string; signature: string } {
  const message = [
    'bench.example wants you to sign in with your Ethereum account:',
    `${getAddress(wallet.address)}\n\n`,
    `URI: https://bench.example\nVersion: 1\nChain ID: 30\nNonce: ${nonce}\nIssued At: ${new Date().toISOString()}`
  ].join('\n')
  return { message, signature: wallet.personalSign(message) }
}

async function logInByMessage(connection: Connection, wallet: BenchWallet): Promise<void> {
  const { nonce } = JSON.parse(assertStatus(await connection.post('/siwe/nonce', {})).body) as { nonce: string }
  assertStatus(await connection.post('/siwe/verify', signedMessage(wallet, nonce)))
}

async function logInWithSiwe(connection: Connection, wallet: BenchWallet): Promise<string> {
  const first = await connection.post('/request-auth', {})
  const cookie = /set-cookie: ([^;]+)/i.exec(first.headers)![1]!
  const { challenge } = JSON.parse(first.body) as { challenge: string }
  assertStatus(await connection.post('/auth', signedMessage(wallet, challenge), `Cookie: ${cookie}\r\n`))
  return cookie
}

/** Module that hides the native curve from the library, so that it uses WASM. */
const WASM_ONLY = `data:text/javascript,${encodeURIComponent(
  `import { register } from 'node:module'
   register('data:text/javascript,' + encodeURIComponent(
     "export async function resolve(s, c, n) { if (s.startsWith('secp256k1/')) throw new Error('hidden'); return n(s, c) }"))`
)}`

const folder = temporaryFolder()
const variants: Record<string, { label: string; start: () => Promise<BenchServer> }> = {
  native: { label: 'memory, native', start: () => startServer('did-auth') },
  wasm: { label: 'memory, WASM', start: () => startServer('did-auth', [], ['--import', WASM_ONLY]) },
  sqlite: { label: 'SQLite, native', start: () => startServer('did-auth-sqlite', [join(folder.path, 'bench.db')]) },
  siwe: { label: '', start: () => startServer('siwe') }
}
const chosen = process.argv.slice(2).filter((word) => word in variants)
const bare = await startServer('bare')
for (const name of chosen.length === 0 ? Object.keys(variants) : chosen) {
  const { label, start } = variants[name]!
  const server = await start()
  await (name === 'siwe' ? measureSiwe(server, bare) : measureLibrary(label, server, bare))
  await server.stop()
}
await bare.stop()
folder.remove()
