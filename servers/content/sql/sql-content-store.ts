import { randomBytes } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { createSingleFlight, SweepClock, systemClock, type Clock } from 'express-did-auth/server-kit'
import { getErrorCode } from '../../config/startup-error.js'
import { ServerError } from '../../http/server-error.js'
import type { ContentStore, NewContent, ObjectStore } from '../content-store.js'
import type { Spool } from '../files.js'
import { toStorageError, toVerbError } from '../storage-error.js'
import type { RunContentVerb } from './content-dialect.js'
import { createInspection, type ContentInspection, type StoreContent } from './content-inspection.js'
import * as contentSteps from './content-steps.js'
import * as entries from './entry-verbs.js'
import * as files from './file-verbs.js'
import * as garbage from './garbage-verbs.js'
import { readPages, readRows, type DatabaseVerbs } from './inspection-verbs.js'
import * as pins from './pin-verbs.js'
import { listCids, MAX_ROW_BYTES, type ContentRow, type UploadNeeded } from './rows.js'
import { createStoredContent, isWhole } from './stored-content.js'

/**
 * Maximum number of uploads for one write. A collector may delete an upload if the clock jumps or the process pauses.
 */
const MAX_UPLOADS = 3

/** Minimum time for which the total size of all files is used before it is computed again. */
const SUM_SECONDS = 10
/** The same time as a multiple of the duration of the computation, which is 0.1 s for a million files. */
const SUM_FACTOR = 100

/** Parts of the storage that depend on the engine. */
export interface SqlContentEngine {
  readonly run: RunContentVerb
  readonly databaseVerbs: DatabaseVerbs
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
  const run: RunContentVerb = (verb, ...args) =>
    engine.run(verb, ...args).catch((error: unknown) => {
      throw toVerbError(error)
    })
  const now = (): number => clock.nowSeconds()
  const { storeContent, repairContent } = createContentWriter({ objects, spool, run }, now)
  const inspection = createInspection({ ...engine, run, storeContent, nowSeconds: now })
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
      usedBytes = await run(files.storedBytes)
      const endedAt = monotonicSeconds()
      isFreshUntil = endedAt + Math.max(SUM_SECONDS, SUM_FACTOR * (endedAt - startedAt))
      return usedBytes
    })
  }

  const collectGarbage: ContentStore['collectGarbage'] = async (nowSeconds, { isFull } = { isFull: false }) => {
    let afterCid: string | undefined = ''
    while (afterCid !== undefined) afterCid = await run(garbage.collectUnreferenced, afterCid, nowSeconds)
    const uploadsBefore = Math.min(nowSeconds, sweepClock.sweepSeconds(now()))
    if (Number.isFinite(uploadsBefore)) await run(garbage.abandonUploads, uploadsBefore)
    // Only a store whose deletions break running reads waits for readers, and not while it is full.
    const waitsForReaders = objects.breaksReaders === true && !isFull
    await deleteGarbage({ run, objects }, waitsForReaders ? nowSeconds : Number.MAX_SAFE_INTEGER)
    isFreshUntil = -Infinity
  }

  const store: ContentStore = {
    writeEntry: ({ content, ...write }) =>
      storeContent(content, (row) => run(entries.writeEntry, { ...write, content: row, tracksPins }, now())),
    removeEntries: (removal) => run(entries.removeEntries, removal, now()),
    describeList: (place) => run(entries.describeList, place),
    listEntries: (place) => run(entries.listEntries, place),
    listOwnEntries: (did) => run(entries.listOwnEntries, did),
    readUsage: (did) => run(entries.readUsage, did),

    async writeFile({ did, content, nowSeconds, ttlSeconds, bounds }) {
      const post = { did, bounds, usedBytes: await readUsedBytes() }
      const file = { expiresAtSeconds: nowSeconds + ttlSeconds, nowSeconds, tracksPins, post }
      const { changedPins, neededBytes } = await storeContent(content, (row) =>
        run(files.writeFile, { ...file, content: row })
      )
      usedBytes += neededBytes
      return { changedPins }
    },
    findFile: (cid, nowSeconds) => run(files.findFile, cid, nowSeconds),
    async deleteExpiredFiles(beforeSeconds) {
      const sweepable = Math.min(beforeSeconds, sweepClock.sweepSeconds(now()))
      return Number.isFinite(sweepable) && run(files.deleteExpiredFiles, sweepable)
    },

    async readContents(cids) {
      const contents = await run(contentSteps.findContents, cids)
      return contents.map((content) => content && createStoredContent(content, objects))
    },
    repairContent,

    async takeDown(cid, reason, nowSeconds) {
      // First refuse the content, so that nothing is added while the entries are removed.
      await run(garbage.deny, cid, reason, nowSeconds)
      let [removed, step] = [0, { removed: 0, isDone: false, wasInRow: false }]
      while (!step.isDone) {
        step = await run(garbage.takeDownStep, cid, nowSeconds)
        removed += step.removed
      }
      await collectGarbage(nowSeconds)
      // Logs, replicas and backups of PostgreSQL and snapshots of disks may also contain it. They are unknown here.
      return { removed, remains: (await engine.erase?.(step.wasInRow)) ?? [] }
    },

    allow: (cid) => run(garbage.allow, cid),
    isTakenDown: (cid) => run(garbage.isTakenDown, cid),
    collectGarbage,
    storedBytes: () => run(files.storedBytes),
    async probe() {
      await run(garbage.probe)
      engine.onProbe?.()
    },
    close: () => engine.close(),

    claim: (request) => run(pins.claim, request),
    finish: (task, nowSeconds) => run(pins.finish, task, nowSeconds),
    postpone: (task, retryAtSeconds, wasCalled) => run(pins.postpone, task, retryAtSeconds, wasCalled),
    countOpen: () => run(pins.countOpen),
    retryNow: (nowSeconds) => run(pins.retryNow, nowSeconds),
    areSettled: async (cids) => (await run(pins.findOpenPins, cids)).length === 0,
    async comparePins(listOnNode, { isDryRun } = { isDryRun: false }) {
      const onNode = await listOnNode()
      let others = onNode.size
      const absentPages: string[][] = []
      for await (const { items } of readRows(inspection, 'pins')) {
        others -= listCids(items).filter((cid) => onNode.has(cid)).length
        const absentItems = items.filter(({ state, cid }) => state === 'pinned' && !onNode.has(String(cid)))
        if (absentItems.length > 0) absentPages.push(listCids(absentItems))
      }
      const onNodeNow = absentPages.length === 0 ? onNode : await listOnNode()
      let missing = 0
      for (const cids of absentPages) {
        const lost = cids.filter((cid) => !onNodeNow.has(cid))
        missing += isDryRun ? lost.length : await run(pins.pinAgain, lost)
      }
      return { missing, others }
    }
  }
  return { store, inspection, spool }
}

/**
 * Deletes objects that are garbage. Continues after a failure.
 *
 * @param readersEndSeconds - as in `findGarbage`
 * @throws the first failure at the end
 */
async function deleteGarbage(
  { run, objects }: Pick<SqlContentEngine, 'run' | 'objects'>,
  readersEndSeconds: number
): Promise<void> {
  let failure: unknown
  for await (const { items } of readPages('', (after: string) => run(garbage.findGarbage, after, readersEndSeconds))) {
    const deleted: string[] = []
    for (const { object, overwrite } of items) {
      try {
        await objects.delete(object, { overwrite })
        deleted.push(object)
      } catch (error) {
        failure ??= error
      }
    }
    if (deleted.length > 0) await run(garbage.forgetGarbage, deleted)
  }
  if (failure !== undefined) throw toStorageError(failure)
}

/**
 * Creates the writer of content. It uploads a large object after its name is registered as garbage, and before content
 * refers to it. If the process ends in between, no content is lost, and the object is deleted later.
 */
function createContentWriter(
  { run, objects, spool }: Pick<SqlContentEngine, 'run' | 'objects' | 'spool'>,
  nowSeconds: () => number
) {
  async function upload(name: string, source: NewContent['source']): Promise<void> {
    if ('file' in source) {
      await objects.put(name, source.file, source.handle)
      return
    }
    const file = spool.newFile()
    try {
      await writeFile(file, source, { mode: 0o600, flag: 'wx' })
      await objects.put(name, file)
    } finally {
      await rm(file, { force: true })
    }
  }

  async function write<T extends object | undefined>(
    { cid, byteCount, leafHashes, source }: NewContent,
    verb: (row: ContentRow) => Promise<T | UploadNeeded>
  ): Promise<{ outcome: T; isUploaded: boolean }> {
    const info = { cid, byteCount, leafHashes: copyView(leafHashes) }
    try {
      if (byteCount <= MAX_ROW_BYTES) {
        const bytes = 'file' in source ? await readFile(source.file) : source
        const outcome = await verb({ ...info, bytes: copyView(bytes) })
        if (!isUploadNeeded(outcome)) return { outcome, isUploaded: false }
      }
      for (let uploads = 0; uploads < MAX_UPLOADS; uploads += 1) {
        const name = `${cid}.${randomBytes(8).toString('hex')}`
        const first = await verb({ ...info, object: { name, isUploaded: false } })
        if (!isUploadNeeded(first)) return { outcome: first, isUploaded: false }
        await upload(name, source)
        const second = await verb({ ...info, object: { name, isUploaded: true } }).catch(async (error: unknown) => {
          const code = getErrorCode(error)
          const kind = code === 'ERR_TAKEN_DOWN' ? 'takedown' : 'removed'
          // A refused write does not use the object. After any other failure, the object may be in use.
          if (code !== 'ERR_STORAGE')
            await run(contentSteps.discardUpload, { cid, byteCount, name }, kind, nowSeconds())
          throw error
        })
        if (!isUploadNeeded(second)) return { outcome: second, isUploaded: true }
        // The collector may have tried to delete the object before it existed, and may forget its name after that.
        await objects.delete(name)
      }
    } catch (error) {
      throw toStorageError(error)
    }
    throw new ServerError('ERR_STORAGE', { detail: 'the uploads were deleted as garbage' })
  }

  async function repairContent(content: NewContent): Promise<void> {
    await write(content, (row) => run(contentSteps.repairContent, row, nowSeconds()))
  }

  // If large content is already stored, it is verified, and repaired if it is damaged. Small content is compared in the
  // write's transaction.
  const storeContent: StoreContent = async (content, verb) => {
    const { outcome, isUploaded } = await write(content, verb)
    if (isUploaded || content.byteCount <= MAX_ROW_BYTES) return outcome
    const [stored] = await run(contentSteps.findContents, [content.cid])
    if (!(await isWhole(stored && createStoredContent(stored, objects)))) await repairContent(content)
    return outcome
  }

  return { repairContent, storeContent }
}

function isUploadNeeded(outcome: object | undefined): outcome is UploadNeeded {
  return outcome !== undefined && 'upload' in outcome
}

/** Copies bytes that are a view of a larger buffer: a message to a thread would otherwise contain the whole buffer. */
function copyView(bytes: Uint8Array): Uint8Array {
  return bytes.byteLength === bytes.buffer.byteLength ? bytes : new Uint8Array(bytes)
}
