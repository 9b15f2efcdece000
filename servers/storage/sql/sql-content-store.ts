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

/** Minimum time for which the total size of all files is used before it is computed again. */
const SUM_SECONDS = 10
/** The same time as a multiple of the duration of the computation, which is 0.1 s for a million files. */
const SUM_FACTOR = 100

/** Parts of the storage that depend on the engine. */
export interface SqlContentEngine {
  readonly verbs: ContentVerbs
  readonly run: RunVerb
  readonly objects: ObjectStore
  readonly spool: Spool
  /** Erases remaining bytes of removed content. @returns descriptions of places that may still contain such bytes */
  readonly erase?: (wasInRow: boolean) => Promise<string[]>
  readonly onProbe?: () => void
  close(): Promise<void>
}

/** Open content storage of a server, on either engine. */
export interface OpenContentStore {
  readonly store: ContentStore
  /** Access for an operator's commands. */
  readonly inspection: ContentInspection
  /** Files for bodies that are being received. */
  readonly spool: Spool
}

/** Options of both engines. */
export interface ContentStoreSettings {
  /** Whether new content is pinned, because there is an IPFS node. Default false. */
  readonly tracksPins?: boolean
  readonly clock?: Clock
  /** Returns monotonic seconds since an arbitrary moment, which changes of the system clock do not affect. */
  readonly monotonicSeconds?: () => number
}

/** Creates the storage of relay or vault in SQL and objects. It runs verbs in the right order, and background work. */
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
  // Make the first reading now, so that the sweep clock trusts the wall clock as early as possible.
  sweepClock.sweepSeconds(now())

  // The bound of all files is approximate, because every post would wait for the lock of an exact counter. Each
  // instance reads the sum every 10 s or less often, and adds the files that it stores. Meanwhile, several instances
  // together may exceed the bound.
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
    let afterCid: string | undefined = ''
    while (afterCid !== undefined) afterCid = await verbs.collectUnreferenced(afterCid, nowSeconds)
    const uploadsBefore = Math.min(nowSeconds, sweepClock.sweepSeconds(now()))
    if (Number.isFinite(uploadsBefore)) await verbs.abandonUploads(uploadsBefore)
    // The largest time includes all garbage, for the case that no reader has to finish.
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
      const contents = await verbs.findContents(cids)
      return contents.map((content) => content && createStoredContent(content, objects))
    },
    repairContent: (content) => writer.repair(content),

    async takeDown(cid, reason, nowSeconds) {
      // First refuse the content, so that nothing is added while the entries are removed.
      await verbs.deny(cid, reason, nowSeconds)
      let [removed, step] = [0, { removed: 0, isDone: false, wasInRow: false }]
      while (!step.isDone) {
        step = await verbs.takeDownStep(cid, nowSeconds)
        removed += step.removed
      }
      await collectGarbage(nowSeconds)
      // Logs, replicas and backups of PostgreSQL and snapshots of disks may also contain it. They are unknown here.
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
      const absentPages: string[][] = []
      for await (const { items } of readRows(verbs, 'pins')) {
        others -= listCids(items).filter((cid) => onNode.has(cid)).length
        const absentItems = items.filter(({ state, cid }) => state === 'pinned' && !onNode.has(String(cid)))
        if (absentItems.length > 0) absentPages.push(listCids(absentItems))
      }
      const onNodeNow = absentPages.length === 0 ? onNode : await listOnNode()
      let missing = 0
      for (const cids of absentPages) {
        const lost = cids.filter((cid) => !onNodeNow.has(cid))
        missing += isDryRun ? lost.length : await verbs.pinAgain(lost)
      }
      return { missing, others }
    }
  }
  return { store, inspection: createInspectionSteps(verbs, parts, writer), spool }
}
