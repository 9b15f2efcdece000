import {
  createMethods,
  createSingleFlight,
  SweepClock,
  systemClock,
  type Clock,
  type RunVerb
} from 'express-did-auth/server-kit'
import type { ContentStore, ObjectStore } from '../content-store.js'
import type { Spool } from '../files.js'
import { toVerbError } from '../storage-error.js'
import { createInspectionSteps, type ContentInspection } from './inspection-steps.js'
import { listCids } from './content-steps.js'
import type { ContentVerbs } from './content-verbs.js'
import { createObjectWriter } from './object-writer.js'
import { readRows } from './page-verbs.js'
import { createStoredContent } from './stored-content.js'

/** Minimum time for which the sum of all files is used before it is computed again. */
const SUM_SECONDS = 10
/** The same as a multiple of the time that computing took, which grows with the files: 0.1 s for a million. */
const SUM_FACTOR = 100

/** Parts of an engine. */
export interface SqlContentEngine {
  readonly verbs: ContentVerbs
  readonly run: RunVerb
  readonly objects: ObjectStore
  readonly spool: Spool
  /** Erases remaining bytes of content that was taken down. @returns descriptions of places that may still have them */
  readonly erase?: (wasInRow: boolean) => Promise<string[]>
  readonly onProbe?: () => void
  close(): Promise<void>
}

/** Open storage of a server, on either engine. */
export interface OpenContentStore {
  readonly store: ContentStore
  /** Access for an operator's commands. */
  readonly inspection: ContentInspection
  /** Files for bodies that are arriving. */
  readonly spool: Spool
}

/** Settings of both engines. */
export interface ContentStoreSettings {
  /** Whether there is an IPFS node, so that new content is to be pinned. Default false. */
  readonly tracksPins?: boolean
  readonly clock?: Clock
  /** Returns the seconds since an arbitrary moment. Changes of the system clock do not affect them. */
  readonly monotonicSeconds?: () => number
}

/** Creates the storage of relay or vault in SQL and objects: runs verbs in the right order, and background work. */
export function createSqlContentStore(
  engine: SqlContentEngine,
  { tracksPins = false, clock = systemClock, monotonicSeconds = () => performance.now() / 1_000 }: ContentStoreSettings
): OpenContentStore {
  const { objects, spool } = engine
  const verbs = createMethods(engine.verbs, (name, args) =>
    engine.run(name, args).catch((error: unknown) => {
      throw toVerbError(error)
    })
  )
  const now = (): number => clock.nowSeconds()
  const parts = { objects, spool, verbs, nowSeconds: now }
  const writer = createObjectWriter(parts)
  const sweepClock = new SweepClock(monotonicSeconds)
  // The time until the sweep clock trusts the wall clock begins now, before the first sweep.
  sweepClock.sweepSeconds(now())

  // The bound of all files is approximate: no row counts them, which every post would wait for. Each instance adds what
  // it stored to a sum that it reads every 10 s or longer; several may exceed the bound by what they store meanwhile.
  let usedBytes = 0
  let isFreshUntil = -Infinity
  const sumOnce = createSingleFlight<number>()
  const readUsedBytes = async (): Promise<number> => {
    if (monotonicSeconds() < isFreshUntil) return usedBytes
    return sumOnce(async () => {
      const startedAt = monotonicSeconds()
      usedBytes = await verbs.storedBytes()
      const endedAt = monotonicSeconds()
      isFreshUntil = endedAt + Math.max(SUM_SECONDS, SUM_FACTOR * (endedAt - startedAt))
      return usedBytes
    })
  }

  const collectGarbage: ContentStore['collectGarbage'] = async (nowSeconds, { isFull } = { isFull: false }) => {
    let after: string | undefined = ''
    while (after !== undefined) after = await verbs.collectUnreferenced(after, nowSeconds)
    const uploadsBefore = Math.min(nowSeconds, sweepClock.sweepSeconds(now()))
    if (Number.isFinite(uploadsBefore)) await verbs.abandonUploads(uploadsBefore)
    // Any time is before it, where nothing is kept for readers.
    await writer.deleteGarbage(objects.breaksReaders === true && !isFull ? nowSeconds : Number.MAX_SAFE_INTEGER)
    isFreshUntil = -Infinity
  }

  const store: ContentStore = {
    ...verbs,
    writeEntry: ({ content, ...write }) =>
      writer.store(content, (row) => verbs.writeEntry({ ...write, content: row, tracksPins }, now())),
    removeEntries: (removal) => verbs.removeEntries(removal, now()),

    async writeFile({ did, content, nowSeconds, ttlSeconds, bounds }) {
      const post = { did, bounds, usedBytes: await readUsedBytes() }
      const file = { expiresAtSeconds: nowSeconds + ttlSeconds, nowSeconds, tracksPins, post }
      const { changedPins, neededBytes } = await writer.store(content, (row) =>
        verbs.writeFile({ ...file, content: row })
      )
      usedBytes += neededBytes
      return { changedPins }
    },
    async deleteExpiredFiles(beforeSeconds) {
      const sweepable = Math.min(beforeSeconds, sweepClock.sweepSeconds(now()))
      return Number.isFinite(sweepable) && verbs.deleteExpiredFiles(sweepable)
    },

    async readContents(cids) {
      const found = await verbs.findContents(cids)
      return found.map((one) => one && createStoredContent(one, objects))
    },
    repairContent: (content) => writer.repair(content),

    async takeDown(cid, reason, nowSeconds) {
      // At once, however much there is to remove: nothing is added from now on.
      await verbs.deny(cid, reason, nowSeconds)
      let [removed, step] = [0, { removed: 0, isDone: false, wasInRow: false }]
      while (!step.isDone) {
        step = await verbs.takeDownStep(cid, nowSeconds)
        removed += step.removed
      }
      await collectGarbage(nowSeconds)
      // The log, replicas and backups of PostgreSQL may have it, as a disk's snapshots may: nothing here can name them.
      return { removed, remains: (await engine.erase?.(step.wasInRow)) ?? [] }
    },

    collectGarbage,
    async probe() {
      await verbs.probe()
      engine.onProbe?.()
    },
    close: () => engine.close(),

    areSettled: async (cids) => (await verbs.findOpenPins(cids)).length === 0,
    async comparePins(listOnNode, { isDryRun } = { isDryRun: false }) {
      const onNode = await listOnNode()
      let others = onNode.size
      const absent: string[][] = []
      for await (const { items } of readRows(verbs, 'pins')) {
        others -= listCids(items).filter((cid) => onNode.has(cid)).length
        const absentHere = items.filter(({ state, cid }) => state === 'pinned' && !onNode.has(String(cid)))
        if (absentHere.length > 0) absent.push(listCids(absentHere))
      }
      const onNodeNow = absent.length === 0 ? onNode : await listOnNode()
      let missing = 0
      for (const cids of absent) {
        const lost = cids.filter((cid) => !onNodeNow.has(cid))
        missing += isDryRun ? lost.length : await verbs.pinAgain(lost)
      }
      return { missing, others }
    }
  }
  return { store, inspection: createInspectionSteps(verbs, parts, writer), spool }
}
