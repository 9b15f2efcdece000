import { benchWallet, type BenchWallet } from './bench-wallet.js'
import { assertStatus, type Step } from './contest.js'
import type { Connection } from './http-client.js'
import { mintTokens } from './mint-tokens.js'

// The same request in all respects, so that what is compared is the guard and not the length of a header.
const anyToken = mintTokens(1)[0]!
export const getBare: Step = async (connection) => {
  assertStatus(await connection.get('/bare', `Authorization: DIDAuth ${anyToken}\r\n`))
}
export const getGuarded =
  (tokens: readonly string[]): Step =>
  async (connection, _worker, index) => {
    assertStatus(await connection.get('/guarded', `Authorization: DIDAuth ${tokens[index % tokens.length]!}\r\n`))
  }

let walletNumber = 1
const bareWallet = benchWallet(walletNumber++)
/** Wallets that no server has seen. */
export const freshWallets = (count: number): BenchWallet[] =>
  Array.from({ length: count }, () => benchWallet(walletNumber++))

/** A whole login by our protocol. */
export async function logIn(
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

export const barePost =
  (path: string): Step =>
  async (connection) => {
    assertStatus(await connection.post(path, { refreshToken: 'r'.repeat(43) }))
  }
// The client works as much as in a real login: how long it is busy decides how often the kernel has to wake somebody.
export const bareLogin =
  (kind: 'bare' | 'drained'): Step =>
  async (connection) => {
    const answer = await connection.post(`/${kind}-challenge`, { did: bareWallet.did })
    const { challenge } = JSON.parse(answer.body) as { challenge: string }
    const sig = bareWallet.personalSign(`Login to bench.example\nVerification code: ${challenge}`)
    const tokens = await connection.post(`/${kind}-tokens`, { did: bareWallet.did, sig })
    assertStatus(tokens)
    JSON.parse(tokens.body)
  }
