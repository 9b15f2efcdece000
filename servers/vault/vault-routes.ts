import { canonicalDid, type RequireDid } from 'express-did-auth'
import express, { type Express, type Request, type RequestHandler, type Response } from 'express'
import type { BodyReader } from '../http/read-body.js'
import { ServerError, type SendError } from '../http/server-error.js'
import type { EntryStore } from '../storage/content-store.js'
import type { StoreBound } from '../storage/disk-space.js'
import { sendEntries, type SendEntriesParts } from './send-entries.js'
import { backupAnswer, keysAnswer, listAnswer, storageAnswer } from './vault-answers.js'
import { isOddSpelling, parseKey, parsePrecondition, type Quota, type Vault, type Written } from './vault.js'

/** What the routes are wired with. */
export interface VaultRoutesParts {
  requireDid: RequireDid
  sendError: SendError
  vault: Vault
  bodies: BodyReader
  /** Of all that is stored, asked before content is written. */
  bounds: readonly StoreBound[]
  /** Called after content was replaced or removed. */
  collectSoon: () => void
  reading: SendEntriesParts & { store: EntryStore }
  quota: Quota
  maxContentBytes: number
}

type Answer = (req: Request, res: Response) => Promise<void>

/** Refuses a write under a reserved key that would pass for a route of the login. It comes before those routes. */
export function refuseOddSpellings(sendError: SendError): RequestHandler {
  return (req, res, next) => {
    if (req.method === 'POST' && isOddSpelling(req.path)) sendError(req, res, new ServerError('ERR_RESERVED_KEY'))
    else next()
  }
}

/** Puts the vault's routes on an application, behind those of the library. Reading a key is open, the rest is for users. */
export function vaultRoutes(app: Express, parts: VaultRoutesParts): void {
  const { requireDid, sendError, vault, bodies, bounds, collectSoon, reading, quota, maxContentBytes } = parts
  const { store } = reading

  const answering =
    (answer: Answer): RequestHandler =>
    (req, res, next) => {
      // What fails then is the log.
      answer(req, res)
        .catch((error: unknown) => {
          sendError(req, res, error)
        })
        .catch(next)
    }

  const list: Answer = async (req, res) => {
    // What is no DID or no key has no entries.
    const place = { did: canonicalDid(paramOf(req, 'did')), key: paramOf(req, 'key') }
    const { etag, entryCount } = await store.describeList(place)
    res.setHeader('Cache-Control', 'no-cache')
    if (isFresh(req, res, etag)) {
      res.status(304).end()
      return
    }
    await sendEntries(reading, req, res, {
      did: place.did,
      entryCount,
      list: async () => {
        const { etag, entries } = await store.listEntries(place)
        return { etag, answer: listAnswer(place.key, entries) }
      }
    })
  }

  /** A write of the user's under the key of the path. */
  const write = (status: number, replacedBy: (req: Request) => 'nothing' | 'all' | { cid: string }): Answer => {
    return async (req, res) => {
      const place = placeOf(req)
      const body = { field: 'content', maxBytes: maxContentBytes, owner: place.did }
      await bodies.read(req, body, async (content) => {
        for (const bound of bounds) await bound.assertFree()
        const replaces = replacedBy(req)
        setHeaders(res, await vault.write(place, content, replaces))
        if (replaces !== 'nothing') collectSoon()
        res.status(status).json({ id: content.cid })
      })
    }
  }

  const remove: Answer = async (req, res) => {
    const { id } = req.params
    setHeaders(res, await vault.remove(placeOf(req), id === undefined ? undefined : paramOf(req, 'id')))
    collectSoon()
    res.status(200).end()
  }

  const keys: Answer = async (req, res) => {
    const did = userOf(req)
    res.setHeader('Cache-Control', 'no-store')
    const { entryCount } = await store.usageOf(did)
    const list = async () => ({ answer: keysAnswer(await store.listOwnEntries(did)) })
    await sendEntries(reading, req, res, { did, entryCount, list })
  }

  const backup: Answer = async (req, res) => {
    const did = userOf(req)
    res.setHeader('Cache-Control', 'no-store')
    const { entryCount } = await store.usageOf(did)
    const list = async () => ({ answer: backupAnswer(did, await store.listOwnEntries(did)) })
    await sendEntries(reading, req, res, { did, entryCount, list })
  }

  const storage: Answer = async (req, res) => {
    res.set('Cache-Control', 'no-store').json(storageAnswer(quota, await store.usageOf(userOf(req))))
  }

  // Strict: a client that puts its empty id at the end of a path must not reach the whole key.
  const router = express.Router({ strict: true })
  router.get('/keys', requireDid, answering(keys))
  router.get('/storage', requireDid, answering(storage))
  router.get('/backup', requireDid, answering(backup))
  router.get('/:did/:key', answering(list))
  router.post('/:key', requireDid, answering(write(201, () => 'nothing')))
  router.put('/:key', requireDid, answering(write(200, () => 'all')))
  router.put('/:key/:id', requireDid, answering(write(200, (req) => ({ cid: paramOf(req, 'id') }))))
  router.delete('/:key', requireDid, answering(remove))
  router.delete('/:key/:id', requireDid, answering(remove))
  app.use(router)
}

/** Where a user writes, and on what condition. @throws ServerError ERR_KEY, ERR_RESERVED_KEY, ERR_INVALID_REQUEST */
function placeOf(req: Request) {
  return { did: userOf(req), key: parseKey(paramOf(req, 'key')), ...parsePrecondition(req.headers) }
}

/**
 * A parameter of a path, decoded. Express has lists of them for patterns that are not used here. No DID, key or id has a NUL,
 * and PostgreSQL cannot be asked for one: it is then empty, as which nothing is stored.
 */
function paramOf({ params }: Request, name: string): string {
  const value = params[name]
  return typeof value === 'string' && !value.includes('\0') ? value : ''
}

/** Whether the client has the list already. */
function isFresh(req: Request, res: Response, etag: string): boolean {
  // Express compares with the header of the answer; an error must not have it.
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

function setHeaders(res: Response, { etag, isSettled }: Written): void {
  res.setHeader('ETag', etag)
  if (!isSettled) res.setHeader('Pin-Status', 'pending')
}
