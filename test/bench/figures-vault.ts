/**
 * The figures of the vault and its IPFS node: F4 (kill -9 under load), F5 (a crash at each call between a write and its
 * pins; those within a write are in test/servers/storage), F7 (a node that fails in every way, at every verb) and F16
 * (random operations against a model, with a real node). One line each; one that misses its goal sets the exit code.
 *
 * Many minutes, by default 100 rounds of F4, 20 rounds of each point of F5 and 1,000 sequences of F16:
 * `npm run figures -- vault [rounds of F4] [of F5] [sequences of F16]`
 */
import { setTimeout as pause } from 'node:timers/promises'
import { crashAt, crashPoints } from '../support/crash-points.js'
import { ipfsFaults } from '../support/ipfs-faults.js'
import { askWithFault, vaultVerbs } from '../support/vault-faults.js'
import { vaultBesideNode } from '../support/vault-beside-node.js'
import { findVaultLosses, startVaultLoad } from '../support/vault-load.js'
import { checkVaultModel } from '../support/vault-model.js'
import { reportFigure } from './report-figure.js'

const USERS = 12
/** The ledger keeps what is in doubt for a minute, so that the node is compared only so often. */
const ROUNDS_UNTIL_COMPARED = 10

const report = (figure: string, text: string, isMet: boolean): void => {
  reportFigure(figure, `vault: ${text}`, isMet)
}

const describe = (faults: readonly string[]): string =>
  faults.length === 0 ? 'no fault' : `${faults.length} faults, the first: ${faults[0]}`

/** F4: the process is killed under load, round after round on one folder; nothing acknowledged may be lost. */
export async function killFigure(rounds: number): Promise<void> {
  const vault = await vaultBesideNode({ ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: '86400' })
  try {
    let server = await vault.start()
    const users = await vault.logIn(server.url, USERS, 20_000)
    const faults: string[] = []
    let [acknowledged, slowestStart, underLoad, loadMilliseconds] = [0, 0, 0, 0]
    for (let round = 0; round < rounds; round += 1) {
      const load = startVaultLoad(server.url, users)
      // The client of the node is loaded with the first call.
      while (load.acknowledged() < 2 * USERS) await pause(5)
      const startedAt = performance.now()
      const before = load.acknowledged()
      await pause(300 + 5 * (round % 100))
      underLoad += load.acknowledged() - before
      loadMilliseconds += performance.now() - startedAt
      server.signal('SIGKILL')
      await server.ended
      await load.stop()
      acknowledged += load.acknowledged()
      server = await vault.start()
      slowestStart = Math.max(slowestStart, server.startMilliseconds)
      faults.push(...load.wrongAnswers, ...(await findVaultLosses(server.url, users)))
      const isCompared = round % ROUNDS_UNTIL_COMPARED === 0 || round === rounds - 1
      if (isCompared) faults.push(...(await vault.findFaults()))
    }
    const writesPerSecond = (underLoad * 1_000) / loadMilliseconds
    report(
      'F4',
      `SIGKILL under load, ${rounds} rounds, ${writesPerSecond.toFixed(0)} writes/s, ${acknowledged} acknowledged, ready again in at most ${slowestStart.toFixed(0)} ms: ${describe(faults)}`,
      faults.length === 0 && slowestStart <= 5_000 && writesPerSecond >= 50
    )
  } finally {
    await vault.stop()
  }
}

/** F5: the process is killed at each point. */
export async function crashFigure(rounds: number): Promise<void> {
  const faults: string[] = []
  const queue = Array.from({ length: rounds }, () => crashPoints).flat()
  const work = async (): Promise<void> => {
    for (let point = queue.pop(); point !== undefined; point = queue.pop()) {
      faults.push(...(await crashAt(point)).map((fault) => `${point?.name ?? ''}: ${fault}`))
    }
  }
  await Promise.all([work(), work()])
  report(
    'F5',
    `${crashPoints.length} points of a crash, ${rounds} rounds each: ${describe(faults)}`,
    faults.length === 0
  )
}

/** F7: each fault of the node meets each verb, in a vault of its own. */
export async function faultsFigure(): Promise<void> {
  const faults: string[] = []
  let slowest = 0
  const queue = ipfsFaults.flatMap((fault) => vaultVerbs.map((verb) => ({ fault, verb })))
  const count = queue.length
  const work = async (): Promise<void> => {
    for (let one = queue.pop(); one !== undefined; one = queue.pop()) {
      const { milliseconds, wrong } = await askWithFault(one.fault, one.verb)
      slowest = Math.max(slowest, milliseconds)
      faults.push(...wrong.map((text) => `${one?.fault ?? ''}, ${one?.verb ?? ''}: ${text}`))
    }
  }
  await Promise.all(Array.from({ length: 12 }, work))
  const text = `${ipfsFaults.length} faults of the node × ${vaultVerbs.length} verbs = ${count}, slowest answer ${(slowest / 1_000).toFixed(1)} s: ${describe(faults)}`
  report('F7', text, faults.length === 0 && slowest <= 11_000)
}

/** F16: random operations against a model, over HTTP and with a real node. */
export async function modelFigure(sequences: number): Promise<void> {
  const difference = await checkVaultModel(sequences).catch((error: unknown) => String(error))
  report(
    'F16',
    `${sequences} sequences of 50 operations by 4 users against a model, pins of a real node included: ${difference ?? 'no difference'}`,
    difference === undefined
  )
}

/** All of them. */
export async function vaultFigures(killRounds = 100, crashRounds = 20, sequences = 1_000): Promise<void> {
  await faultsFigure()
  await killFigure(killRounds)
  await crashFigure(crashRounds)
  await modelFigure(sequences)
}

if (process.argv[1]?.endsWith('figures-vault.ts')) {
  await vaultFigures(...process.argv.slice(2).map(Number))
}
