/**
 * The figures of the vault and its IPFS node: F4 (kill -9 under load), F5 (a crash at each point between content, index,
 * pin and unpin), F7 (a node that fails in every way, at every verb) and F16 (random writes against a model, with a real
 * node). One line each; one that misses its goal sets the exit code.
 *
 * Many minutes: `npx tsx test/bench/figures-vault.ts [rounds of F4, default 100] [rounds of each point of F5, default 20]
 * [sequences of F16, default 1000]`
 */
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { openDatabase, type SqliteFile } from '../../servers/shared/content/database.js'
import { ContentStore } from '../../servers/shared/content/content-store.js'
import { ipfsHttpNode } from '../../servers/shared/ipfs/ipfs-http-node.js'
import { crashAt, crashPoints } from '../support/crash-points.js'
import { ipfsFaults } from '../support/ipfs-faults.js'
import { startIpfsRpcServer } from '../support/ipfs-rpc-server.js'
import { temporaryFolder } from '../support/store-folder.js'
import { askWithFault, vaultVerbs } from '../support/vault-faults.js'
import { findVaultLosses, startVaultLoad } from '../support/vault-load.js'
import { runAgainstDictionary } from '../support/dictionary-run.js'
import { vaultBesideNode } from '../support/vault-beside-node.js'
import { faultsInside, vaultInside } from '../support/vault-parts.js'

const USERS = 12

function report(figure: string, text: string, isGood: boolean): void {
  console.log(`${figure.padEnd(4)} ${isGood ? 'ok  ' : 'MISS'} vault: ${text}`)
  if (!isGood) process.exitCode = 1
}

const describe = (faults: readonly string[]): string =>
  faults.length === 0 ? 'no fault' : `${faults.length} faults, the first: ${faults[0]}`

/** F4: the process is killed under load, round after round on one folder; nothing acknowledged may be lost. */
export async function killFigure(rounds: number): Promise<void> {
  const vault = await vaultBesideNode({ ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: '86400' })
  try {
    let server = await vault.start()
    const users = await vault.logIn(server.url, USERS, 20_000)
    const database = openDatabase(join(vault.folder, 'vault', 'vault.db'))
    const faults: string[] = []
    let [acknowledged, slowestStart, slowestDrain, underLoad, loadMilliseconds] = [0, 0, 0, 0, 0]
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
      slowestDrain = Math.max(slowestDrain, await drained(database))
      const wanted = database.prepare<[], string>('SELECT DISTINCT cid FROM entries ORDER BY cid').pluck().all()
      if ([...vault.node.pins].sort().join() !== wanted.join()) {
        faults.push(`${vault.node.pins.size} pins on the node for ${wanted.length} contents`)
      }
      faults.push(...load.wrongAnswers, ...(await findVaultLosses(server.url, users)))
      faults.push(...faultsInside({ database, contents: new ContentStore(database) }))
    }
    database.close()
    const writesPerSecond = (underLoad * 1_000) / loadMilliseconds
    report(
      'F4',
      `SIGKILL under load, ${rounds} rounds, ${writesPerSecond.toFixed(0)} writes/s, ${acknowledged} acknowledged, ready again in at most ${slowestStart.toFixed(0)} ms, pins in step ${slowestDrain.toFixed(0)} ms later at most: ${describe(faults)}`,
      faults.length === 0 && slowestStart <= 5_000 && writesPerSecond >= 50
    )
  } finally {
    await vault.stop()
  }
}

/** Milliseconds until nothing waits in the outbox. */
async function drained(database: SqliteFile): Promise<number> {
  const startedAt = performance.now()
  const open = database.prepare<[], number>("SELECT count(*) FROM vault_pins WHERE state <> 'pinned'").pluck()
  while (open.get() !== 0 && performance.now() - startedAt < 20_000) await pause(10)
  return performance.now() - startedAt
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

/** F16: random writes against a model, with a real node. */
export async function modelFigure(sequences: number): Promise<void> {
  const folder = temporaryFolder()
  const server = await startIpfsRpcServer()
  const node = ipfsHttpNode(server.url)
  const inside = vaultInside(join(folder.path, 'vault.db'), node)
  const others = await server.pins()
  const pins = async () => (await server.pins()).filter((pin) => !others.includes(pin))
  const differences = await runAgainstDictionary(inside, pins, { sequences, operations: 50, seed: 16 })
  report(
    'F16',
    `${sequences} sequences of 50 writes by 4 users against a model, pins of a real node included: ${differences.length === 0 ? 'no difference' : describe(differences)}`,
    differences.length === 0
  )
  await inside.close()
  node.close()
  await server.stop()
  folder.remove()
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
