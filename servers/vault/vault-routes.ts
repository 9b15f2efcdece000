import { canonicalDid, type RequireDid } from 'express-did-auth'
import express, { type Express, type Request, type RequestHandler, type Response } from 'express'
import { readText } from '../shared/upload/read-text.js'
import { storageFailure } from '../shared/content/storage-failure.js'
import type { DiskSpace } from '../shared/content/disk-space.js'
import { entryReader, type EntryReaderParts } from './reads/entry-reader.js'
import type { Quota } from './quota.js'
import { AnswerRoom } from './reads/answer-room.js'
import { ReaderGone, ReadingGate } from './reads/reading-gate.js'
import { ReadingTurns } from './reads/reading-turns.js'
import { sendChecked, type EntriesAnswer } from './reads/send-entries.js'
import { groupedByKey, storageOf } from './vault-account.js'
import type { KeyedEntry, VaultIndex } from './vault-index.js'
import { parseKey } from './vault-key.js'
import { backupAnswer, checkAtOneMoment, etagOf, keysAnswer, listAnswer, listInTurn } from './reads/vault-reads.js'
import type { Vault, Written } from './vault.js'

/** What the routes are wired with. */
export interface VaultRoutesParts {
  requireDid: RequireDid
  sendError: (req: Request, res: Response, error: unknown) => void
  vault: Vault
  reading: EntryReaderParts & { index: VaultIndex }
  disk: DiskSpace
  quota: Quota
  maxContentBytes: number
}

const FEW_ENTRIES = 8

type Answer = (req: Request, res: Response) => Promise<void> | void

/** Puts the vault's routes on an application, behind those of the library: reads are open, the rest is for users. */
export function vaultRoutes(app: Express, parts: VaultRoutesParts): void {
  const { requireDid, sendError, vault, reading, disk, quota, maxContentBytes } = parts
  const { index } = reading
  const shared = { turns: new ReadingTurns(), gate: new ReadingGate(), room: new AnswerRoom() }

  const answering =
    (answer: Answer): RequestHandler =>
    (req, res, next) => {
      const answerOrRefuse = async (): Promise<void> => {
        try {
          await answer(req, res)
        } catch (error) {
          if (!(error instanceof ReaderGone)) sendError(req, res, storageFailure(error))
        }
      }
      // Only the log can have failed now.
      answerOrRefuse().catch(next)
    }

  const readContent = async (req: Request): Promise<Uint8Array> => {
    const { bytes } = await readText(req, 'content', maxContentBytes, { holder: userOf(req) })
    await disk.assertFree()
    return bytes
  }

  /** Few entries pass by those who wait for many. */
  const passGate = <T>(res: Response, hasFew: () => boolean, prepare: () => Promise<T>): Promise<T> =>
    shared.gate.isFull && hasFew() ? prepare() : shared.gate.pass(res, prepare)

  const list: Answer = async (req, res) => {
    const did = canonicalDid(paramOf(req, 'did'))
    const key = paramOf(req, 'key')
    // What is no DID or no key has nothing.
    const idsNow = () => index.list(did, key)
    res.setHeader('Cache-Control', 'no-cache')
    const prepare = async () => {
      const asked = req.headers['if-none-match'] !== undefined
      if (asked && isFresh(req, res, etagOf(await listInTurn(shared, res, idsNow)))) return undefined
      const read = entryReader(reading, did)
      return checkAtOneMoment(shared, res, idsNow, (ids) => listAnswer(read, key, ids))
    }
    const checked = await passGate(res, () => !index.hasMore(did, key, FEW_ENTRIES), prepare)
    if (checked === undefined) {
      res.status(304).end()
      return
    }
    res.setHeader('ETag', etagOf(checked.entries))
    await sendChecked(req, res, checked)
  }

  const post: Answer = async (req, res) => {
    const key = parseKey(paramOf(req, 'key'))
    sendWritten(res, 201, await vault.add(userOf(req), key, await readContent(req)))
  }

  const putAll: Answer = async (req, res) => {
    const key = parseKey(paramOf(req, 'key'))
    sendWritten(res, 200, await vault.replaceAll(userOf(req), key, await readContent(req)))
  }

  const putOne: Answer = async (req, res) => {
    const key = parseKey(paramOf(req, 'key'))
    sendWritten(res, 200, await vault.replace(userOf(req), key, paramOf(req, 'id'), await readContent(req)))
  }

  const removeAll: Answer = async (req, res) => {
    sendRemoved(res, await vault.remove(userOf(req), parseKey(paramOf(req, 'key'))))
  }

  const removeOne: Answer = async (req, res) => {
    sendRemoved(res, await vault.remove(userOf(req), parseKey(paramOf(req, 'key')), paramOf(req, 'id')))
  }

  /** Sends an answer of all entries of the user. */
  const sendAll = async (
    req: Request,
    res: Response,
    answerOf: (entries: readonly KeyedEntry[]) => EntriesAnswer<KeyedEntry>
  ): Promise<void> => {
    const did = userOf(req)
    const prepare = () => checkAtOneMoment(shared, res, () => index.findAll(did), answerOf)
    const checked = await passGate(res, () => index.usage(did).entryCount <= FEW_ENTRIES, prepare)
    res.setHeader('Cache-Control', 'no-store')
    await sendChecked(req, res, checked)
  }

  const keys: Answer = (req, res) => sendAll(req, res, (entries) => keysAnswer(groupedByKey(entries)))

  const storage: Answer = (req, res) => {
    res.set('Cache-Control', 'no-store').json(storageOf(quota, index.usage(userOf(req))))
  }

  const backup: Answer = (req, res) => {
    const did = userOf(req)
    const read = entryReader(reading, did)
    return sendAll(req, res, (entries) => backupAnswer(read, did, entries))
  }

  // Strict: a client that puts its empty id at the end of a path must not reach the whole key.
  const router = express.Router({ strict: true })
  router.get('/keys', requireDid, answering(keys))
  router.get('/storage', requireDid, answering(storage))
  router.get('/backup', requireDid, answering(backup))
  router.get('/:did/:key', answering(list))
  router.post('/:key', requireDid, answering(post))
  router.put('/:key', requireDid, answering(putAll))
  router.put('/:key/:id', requireDid, answering(putOne))
  router.delete('/:key', requireDid, answering(removeAll))
  router.delete('/:key/:id', requireDid, answering(removeOne))
  app.use(router)
}

/** A parameter of a path, decoded. Express has lists of them for patterns that are not used here. */
function paramOf({ params }: Request, name: string): string {
  const value = params[name]
  return typeof value === 'string' ? value : ''
}

/** Whether whoever asks has this already. */
function isFresh(req: Request, res: Response, etag: string): boolean {
  // Express compares with the header of the answer; what is refused later must not have one.
  res.setHeader('ETag', etag)
  const { fresh } = req
  if (!fresh) res.removeHeader('ETag')
  return fresh
}

/** The canonical DID of the user, whom there always is behind requireDid. */
function userOf({ user }: Request): string {
  if (user === undefined) throw new TypeError('no user behind requireDid')
  return canonicalDid(user.did)
}

function sendWritten(res: Response, status: number, { id, isPinned }: Written): void {
  if (!isPinned) res.setHeader('Pin-Status', 'pending')
  res.status(status).json({ id })
}

function sendRemoved(res: Response, isSettled: boolean): void {
  if (!isSettled) res.setHeader('Pin-Status', 'pending')
  res.status(200).end()
}
