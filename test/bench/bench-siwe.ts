import { getAddress } from 'ethers'
import { bareLogin, freshWallets, getBare } from './bench-clients.js'
import type { BenchWallet } from './bench-wallet.js'
import { assertStatus, compare, costOf } from './contest.js'
import { Connection } from './http-client.js'
import type { BenchServer } from './variants.js'

const CLIENTS = 16

/** The same work by siwe and express-session, beside the same bare routes. */
export async function benchSiwe(siwe: BenchServer, bare: BenchServer): Promise<void> {
  const connection = await Connection.open(siwe.port)
  const cookies: string[] = []
  for (const wallet of freshWallets(CLIENTS)) cookies.push(await logInWithSiwe(connection, wallet))
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
