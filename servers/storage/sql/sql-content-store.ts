import { singleFlight, SweepClock, systemClock, type CallVerb, type Clock } from 'express-did-auth/server-kit'
import type { ContentStore } from '../content-store.js'
import type { Spool } from '../files/spool.js'
import type { ObjectStore } from '../object-store.js'
import type { OpenContentStore } from '../opened-content-store.js'
import type { PinLedger } from '../pin-ledger.js'
import { storeFailure } from '../storage-error.js'
import type { ContentVerbs } from './content-verbs.js'
import { ObjectWriter } from './object-writer.js'
import { sqlContentInspection } from './sql-content-inspection.js'
import { storedContent } from './stored-content.js'

/** How long the sum of all files is used before it is asked again. */
const SUM_SECONDS = 10

/** Pins that are changed in one transaction. */
const PINS_AT_ONCE = 1_000

/** What an engine brings. */
export interface ContentEngine {
  /** Runs verbs: in a thread that owns a file of SQLite, or on connections to PostgreSQL. */
  readonly call: CallVerb<ContentVerbs>
  readonly objects: ObjectStore
  readonly spool: Spool
  /** What it does where bytes that were taken down may be left. @returns what may still have them, in words */
  readonly erase?: (wasInRow: boolean) => Promise<string[]>
  readonly onProbe?: () => void
  close(): Promise<void>
}

/** What both engines are opened with. */
export interface ContentStoreSettings {
  /** Whether there is an IPFS node, so that new content is to be pinned. Default false. */
  readonly tracksPins?: boolean
  readonly clock?: Clock
  /** Seconds since any moment, that no clock which is set changes. */
  readonly monotonicSeconds?: () => number
}

/** Relay or vault in SQL and objects: verbs in the order that each needs, and what works beside them. */
export function sqlContentStore(
  engine: ContentEngine,
  { tracksPins = false, clock = systemClock, monotonicSeconds = () => performance.now() / 1_000 }: ContentStoreSettings
): OpenContentStore {
  const { objects, spool } = engine
  // The types are those of the engine.
  const call = (async (name, ...args) => {
    try {
      return await engine.call(name, ...args)
    } catch (error) {
      throw storeFailure(error)
    }
  }) as CallVerb<ContentVerbs>
  const now = (): number => clock.nowSeconds()
  const writer = new ObjectWriter({ objects, spool, call, nowSeconds: now })
  const sweepClock = new SweepClock(monotonicSeconds)
  // The time until it trusts the wall clock begins now, and not with the first sweep.
  sweepClock.sweepSeconds(now())

  // The bound of all files is approximate: no row counts them, which every post would wait for. Each instance adds what it
  // stored to a sum that it reads every 10 s, so several of them may exceed the bound by what they store in that time.
  let usedBytes = 0
  let isFreshUntil = -Infinity
  const sumOnce = singleFlight<number>()
  const readUsedBytes = async (): Promise<number> => {
    if (monotonicSeconds() < isFreshUntil) return usedBytes
    return sumOnce(async () => {
      usedBytes = await call('storedBytes')
      isFreshUntil = monotonicSeconds() + SUM_SECONDS
      return usedBytes
    })
  }

  const collectGarbage: ContentStore['collectGarbage'] = async (nowSeconds, { isFull } = { isFull: false }) => {
    let after: string | undefined = ''
    while (after !== undefined) after = await call('collectUnreferenced', after, nowSeconds)
    const uploadsBefore = Math.min(nowSeconds, sweepClock.sweepSeconds(now()))
    if (Number.isFinite(uploadsBefore)) await call('abandonUploads', uploadsBefore)
    // Any time is before it, where nothing is kept for readers.
    await writer.deleteGarbage(objects.breaksReaders === true && !isFull ? nowSeconds : Number.MAX_SAFE_INTEGER)
    isFreshUntil = -Infinity
  }

  const store: ContentStore & PinLedger = {
    writeEntry: ({ content, ...write }) =>
      writer.store(content, (row) => call('writeEntry', { ...write, content: row, tracksPins }, now())),
    removeEntries: (removal) => call('removeEntries', removal, now()),
    describeList: (place) => call('describeList', place),
    listEntries: (place) => call('listEntries', place),
    listOwnEntries: (did) => call('listOwnEntries', did),
    usageOf: (did) => call('usageOf', did),

    async writeFile({ did, content, nowSeconds, ttlSeconds, bounds }) {
      const post = { did, bounds, usedBytes: await readUsedBytes() }
      const file = { expiresAtSeconds: nowSeconds + ttlSeconds, nowSeconds, tracksPins, post }
      const { changedPins, neededBytes } = await writer.store(content, (row) =>
        call('writeFile', { ...file, content: row })
      )
      usedBytes += neededBytes
      return { changedPins }
    },
    findFile: (cid, nowSeconds) => call('findFile', cid, nowSeconds),
    async deleteExpiredFiles(beforeSeconds) {
      const sweepable = Math.min(beforeSeconds, sweepClock.sweepSeconds(now()))
      return Number.isFinite(sweepable) && call('deleteExpiredFiles', sweepable)
    },

    async readContents(cids) {
      const found = await call('findContents', cids)
      return found.map((one) => one && storedContent(one, objects))
    },
    repairContent: (content) => writer.repair(content),

    async takeDown(cid, reason, nowSeconds) {
      // At once, however much there is to remove: nothing is added from now on.
      await call('deny', cid, reason, nowSeconds)
      let [removed, step] = [0, { removed: 0, isDone: false, wasInRow: false }]
      while (!step.isDone) {
        step = await call('takeDownStep', cid, nowSeconds)
        removed += step.removed
      }
      await collectGarbage(nowSeconds)
      // The log, replicas and backups of PostgreSQL may have it, as a disk's snapshots may: nothing here can name them.
      return { removed, remains: (await engine.erase?.(step.wasInRow)) ?? [] }
    },
    allow: (cid) => call('allow', cid),
    isTakenDown: (cid) => call('isTakenDown', cid),

    collectGarbage,
    storedBytes: () => call('storedBytes'),
    async probe() {
      await call('probe')
      engine.onProbe?.()
    },
    close: () => engine.close(),

    claim: (request) => call('claimPins', request),
    finish: (task, nowSeconds) => call('finishPin', task, nowSeconds),
    postpone: (task, retryAtSeconds, wasCalled = true) => call('postponePin', task, retryAtSeconds, wasCalled),
    areSettled: async (cids) => (await call('findOpenPins', cids)).length === 0,
    countOpen: () => call('countOpenPins'),
    retryNow: (nowSeconds) => call('retryPins', nowSeconds),
    async comparePins(listOnNode, { isDryRun } = { isDryRun: false }) {
      const onNode = await listOnNode()
      let others = onNode.size
      const absent: string[] = []
      for (
        let page = await call('listPins', '');
        page.length > 0;
        page = await call('listPins', page.at(-1)?.cid ?? '')
      ) {
        others -= page.filter(({ cid }) => onNode.has(cid)).length
        for (const { cid, isPinned } of page) if (isPinned && !onNode.has(cid)) absent.push(cid)
      }
      const onNodeNow = absent.length === 0 ? onNode : await listOnNode()
      const lost = absent.filter((cid) => !onNodeNow.has(cid))
      let missing = isDryRun ? lost.length : 0
      for (let start = 0; !isDryRun && start < lost.length; start += PINS_AT_ONCE) {
        missing += await call('pinAgain', lost.slice(start, start + PINS_AT_ONCE))
      }
      return { missing, others }
    }
  }
  const inspection = sqlContentInspection({ call, objects, writer, nowSeconds: now })
  return { store, inspection, imports: inspection, spool }
}
