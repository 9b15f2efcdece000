import { barePost, bareLogin, freshWallets, getBare, getGuarded, logIn } from './bench-clients.js'
import { compareLatency } from './bench-latency.js'
import { assertStatus, compare, costOf, isFigureChosen } from './contest.js'
import { Connection } from './http-client.js'
import { mintTokens } from './mint-tokens.js'
import type { BenchServer } from './variants.js'

const CLIENTS = 16

/** P1 to P4: the library on Express beside bare Express. */
export async function benchLibrary(label: string, ours: BenchServer, bare: BenchServer): Promise<void> {
  const setup = await Connection.open(ours.port)
  const seen: string[] = []
  for (const wallet of freshWallets(CLIENTS)) seen.push((await logIn(setup, wallet)).accessToken)
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
  for (const wallet of freshWallets(CLIENTS)) refreshTokens.push((await logIn(setup, wallet)).refreshToken)
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
  if (isFigureChosen('P4')) await compareLatency(label, ours, bare)
}
