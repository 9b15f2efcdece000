import { canonicalDid, es256kSigner, setupDidAuth, type RequireDid } from 'express-did-auth'
import { ConcurrencyLimiter, listsEntityTag, normalizeEntityTag, systemClock } from 'express-did-auth/server-kit'
import type {} from 'express-did-auth/types'
import express, { type Express, type Request, type RequestHandler, type Response } from 'express'
import { ByteBudget } from '../content/limits.js'
import { sendWhole } from '../content/send-content.js'
import { asyncHandler, createApp, addFallbacks, type ServerApp, type ServerAppParts } from '../http/create-app.js'
import { findTrustedIssuer, createIssuerDependencies } from '../http/did-auth.js'
import { authRoutes, createDidAuthConfig, createDidAuthDependencies, optionalPaths } from '../http/did-auth.js'
import { ServerError } from '../http/server-error.js'
import { createIpfsDependency } from '../ipfs/ipfs-node.js'
import { serveDocument } from '../openapi/document.js'
import { startContentWork, type ContentWork } from '../process/content-work.js'
import { openContentServer, type Contents, type ServerOpener } from '../process/start-server.js'
import type { EntryChange, EntryPlace, EntryWrite, KeyedEntry, Precondition } from '../content/content-store.js'
import { createBytesBound, createDiskBound, createStoreBound } from '../content/disk-space.js'
import {
  acquireMemory,
  streamBackup,
  listText,
  prepareAnswer,
  sendEntries,
  type EntriesText
} from './entries-answer.js'

/** Parts of the vault server. */
export type VaultServerParts = ServerAppParts & Contents

/**
 * Limits for lists that are prepared in parallel. A list may have thousands of entries, and the thread also serves
 * other requests. A client network may use a quarter of the turns, which is 2, and its site 4.
 */
const PREPARING = { maxRunning: 8, maxWaiting: 256, timeoutMilliseconds: 3_500 }
/** Maximum memory in bytes for responses in progress: their lists, and the pages of content. */
const MAX_SENT_BYTES = 134_217_728

const MAX_KEY_BYTES = 512
const NO_KEYS: ReadonlySet<string> = new Set(['', '.', '..'])
/** Control characters: C0, DEL and C1. */
const CONTROL_CHARACTER = /\p{Cc}/u
const reservedKeys: ReadonlySet<string> = new Set(authRoutes.map((route) => route.slice(1)))
const ENTITY_TAGS = /^(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"(?:[ \t]*,[ \t]*(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")*$/

/** Opens the storage of the vault. @throws StartError */
export const openVault: ServerOpener = (env, connections) => openContentServer(env, connections, createVaultApp)

/** Builds the vault. The caller closes stores and IPFS node. */
export function createVaultApp(parts: VaultServerParts): ServerApp {
  const { env, node } = parts
  const signer = es256kSigner(parts.identity.privateKey)
  const trusted = findTrustedIssuer(parts)
  const loginDependencies = [...createDidAuthDependencies(signer, env.RPC_URL), ...createIssuerDependencies(trusted)]
  const { sessionPath } = optionalPaths
  const app = createApp(
    parts,
    [...authRoutes, sessionPath, '/.well-known'],
    [...loginDependencies, createIpfsDependency(node)]
  )
  app.post([...authRoutes], refuseOddSpelling)
  const requireDid = setupDidAuth(app, { ...createDidAuthConfig(parts, signer), sessionPath, resourceIssuer: trusted })
  app.get('/openapi.json', serveDocument('vault', parts.serviceUrl))

  const work = startContentWork(parts, systemClock, 'collector', () => collectGarbage(parts))
  addRoutes(app, parts, requireDid, work)
  const close = async (): Promise<void> => {
    await work.stop()
    await requireDid.close()
  }
  return { listener: addFallbacks(app, parts), ready: requireDid.ready, close }
}

function collectGarbage({ contents }: VaultServerParts, options?: { isFull: boolean }): Promise<void> {
  return contents.collectGarbage(systemClock.nowSeconds(), options)
}

/** Creates functions that assert the limits of the whole store before content is written. */
function createBounds(parts: VaultServerParts): ReturnType<typeof createStoreBound>[] {
  const { env, contents, usedPercent } = parts
  const { VAULT_MAX_STORE_BYTES: maxBytes } = env
  const bytes = maxBytes === undefined ? [] : [createBytesBound(() => contents.storedBytes(), maxBytes)]
  const makeSpace = (): Promise<void> => collectGarbage(parts, { isFull: true })
  return [createDiskBound(usedPercent), ...bytes].map((measure) => createStoreBound(measure, makeSpace))
}

type Handler = (req: Request, res: Response) => Promise<void>

/** Refuses a write under a key that is a login route in other letter case, such as `/LOGOUT`. */
const refuseOddSpelling: RequestHandler = (req, _res, next) => {
  const isExact = authRoutes.includes(req.path.replace(/\/$/, ''))
  next(isExact ? undefined : new ServerError('ERR_RESERVED_KEY'))
}

/** Adds the vault's routes after those of the library. Everyone may read a key; all other routes need a login. */
function addRoutes(app: Express, parts: VaultServerParts, requireDid: RequireDid, work: ContentWork): void {
  const { env, contents: store } = parts
  const { bodies, repair, settlePins, collectSoon } = work
  const quota = { maxBytes: env.VAULT_MAX_BYTES_PER_DID, maxEntries: env.VAULT_MAX_ENTRIES_PER_DID }
  const bounds = createBounds(parts)
  const limiter = new ConcurrencyLimiter(PREPARING)
  const readingParts = { store, repair, limiter, budget: new ByteBudget({ maxBytes: MAX_SENT_BYTES }) }

  const list: Handler = async (req, res) => {
    // Nothing is stored under an invalid DID or key, so the list is empty.
    const place = { did: canonicalDid(readParam(req, 'did')), key: readParam(req, 'key') }
    const { etag, entryCount } = await store.describeList(place)
    res.setHeader('Cache-Control', 'no-cache, no-transform')
    if (isFresh(req, etag)) {
      res.setHeader('ETag', etag)
      res.status(304).end()
      return
    }
    const read = async (): Promise<EntriesText> => listText(place.key, await store.listEntries(place))
    await sendEntries(readingParts, res, { did: place.did, entryCount, read })
  }

  /**
   * Sets the response headers after a durable write. Waits at most 2 s for the IPFS node to change its pins. Content
   * that the write has released is collected soon.
   */
  const settle = async (res: Response, { etag, changedPins, hasReleased }: EntryChange): Promise<void> => {
    if (hasReleased) collectSoon()
    const isSettled = changedPins.length === 0 || (await settlePins(changedPins))
    res.set({ 'Cache-Control': 'no-transform', ETag: etag })
    if (!isSettled) res.setHeader('Pin-Status', 'pending')
  }

  /** Handles a user's write. One transaction changes content, index, quota and pin ledger. */
  const write = (status: number, getReplaced: (req: Request) => EntryWrite['replaces']): Handler => {
    return async (req, res) => {
      const place = parseWrite(req)
      const body = { field: 'content', maxBytes: env.VAULT_MAX_CONTENT_BYTES, owner: place.did }
      await bodies.read(req, body, async (content) => {
        for (const assertFree of bounds) await assertFree()
        await settle(res, await store.writeEntry({ ...place, content, replaces: getReplaced(req), quota }))
        res.status(status).json({ id: content.cid })
      })
    }
  }

  const remove: Handler = async (req, res) => {
    const target = req.params.id === undefined ? {} : { cid: readParam(req, 'id') }
    await settle(res, await store.removeEntries({ ...parseWrite(req), ...target }))
    res.status(200).end()
  }

  const keys: Handler = async (req, res) => {
    const did = requireUser(req)
    const { entryCount } = await store.readUsage(did)
    const group = async () => groupByKey(await store.listOwnEntries(did))
    const json = JSON.stringify({ keys: await prepareAnswer(readingParts, res, entryCount, group) })
    sendWhole(res, json, { 'Cache-Control': 'no-store' }, acquireMemory(readingParts, res, json.length))
  }

  const backup: Handler = async (req, res) => {
    const did = requireUser(req)
    const { entryCount } = await store.readUsage(did)
    const read = async (): Promise<EntriesText> => streamBackup(did, await store.listOwnEntries(did))
    await sendEntries(readingParts, res, { did, entryCount, read })
  }

  /** Answers with used and available bytes and entries. Available is never below 0, even after a quota was lowered. */
  const storage: Handler = async (req, res) => {
    const { byteCount, entryCount } = await store.readUsage(requireUser(req))
    const available = Math.max(0, quota.maxBytes - byteCount)
    const availableEntries = Math.max(0, quota.maxEntries - entryCount)
    res.set('Cache-Control', 'no-store').json({ used: byteCount, available, usedEntries: entryCount, availableEntries })
  }

  // Strict routing: a path with an empty id, `/key/`, must not change the whole key.
  const router = express.Router({ strict: true })
  router.get('/keys', requireDid, asyncHandler(keys))
  router.get('/storage', requireDid, asyncHandler(storage))
  router.get('/backup', requireDid, asyncHandler(backup))
  router.get('/:did/:key', asyncHandler(list))
  router.post('/:key', requireDid, asyncHandler(write(201, () => 'nothing')))
  router.put('/:key', requireDid, asyncHandler(write(200, () => 'all')))
  router.put('/:key/:id', requireDid, asyncHandler(write(200, (req) => ({ cid: readParam(req, 'id') }))))
  router.delete('/:key', requireDid, asyncHandler(remove))
  router.delete('/:key/:id', requireDid, asyncHandler(remove))
  app.use(router)
}

/** Groups entries by key, in the order of the keys' first entries. */
function groupByKey(entries: readonly KeyedEntry[]): { key: string; entries: { id: string; size: number }[] }[] {
  const groups = new Map<string, { id: string; size: number }[]>()
  for (const { key, cid, byteCount } of entries) {
    const entry = { id: cid, size: byteCount }
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [entry])
    else group.push(entry)
  }
  return [...groups].map(([key, entries]) => ({ key, entries }))
}

/**
 * Validates the decoded key of a write: 1 to 512 bytes of UTF-8 without control characters. `.` and `..` are refused,
 * because clients resolve them in paths. Names of the library's routes are reserved in any letter case, because the
 * library would handle the POST.
 *
 * @throws ServerError ERR_KEY, ERR_RESERVED_KEY
 */
function parseKey(text: string): string {
  const isKey = !NO_KEYS.has(text) && Buffer.byteLength(text) <= MAX_KEY_BYTES && !CONTROL_CHARACTER.test(text)
  if (!isKey) throw new ServerError('ERR_KEY')
  if (reservedKeys.has(text.toLowerCase())) throw new ServerError('ERR_RESERVED_KEY')
  return text
}

/** Asserts that `Vault-Key`, if a client sends it, names the key of the path. @throws ServerError ERR_KEY */
function assertSameKey({ headers: { 'vault-key': sent } }: Request, key: string): void {
  if (sent === undefined) return
  try {
    if (decodeURIComponent(String(sent)) === key) return
  } catch {
    // The header is not percent-encoded.
  }
  throw new ServerError('ERR_KEY', {
    detail: 'Vault-Key names another key than the path, which a proxy may have decoded'
  })
}

/**
 * Parses user, key and precondition of a write: `If-Match` with ETags or `*`, and `If-None-Match: *`. A weak ETag
 * matches, because proxies that compress answers make ETags weak. Asserts that `Vault-Key` names the key.
 *
 * @throws ServerError ERR_KEY, ERR_RESERVED_KEY; ERR_INVALID_REQUEST for others: ignoring them could overwrite data
 * @see RFC 9110, sections 13.1.1 and 13.1.2
 */
function parseWrite(req: Request): EntryPlace & Precondition {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = req.headers
  const place = { did: requireUser(req), key: parseKey(readParam(req, 'key')) }
  assertSameKey(req, place.key)
  if (ifNoneMatch !== undefined && ifNoneMatch !== '*') {
    throw new ServerError('ERR_INVALID_REQUEST', { detail: 'If-None-Match must be * on a write' })
  }
  return {
    ...place,
    ...(ifMatch !== undefined && { ifMatch: parseEntityTags(ifMatch) }),
    ...(ifNoneMatch !== undefined && { ifNoneMatch })
  }
}

function parseEntityTags(text: string): readonly string[] | '*' {
  if (text === '*') return text
  if (!ENTITY_TAGS.test(text)) {
    throw new ServerError('ERR_INVALID_REQUEST', { detail: 'If-Match must be * or a list of quoted ETags' })
  }
  return (text.match(/"[^"]*"/g) ?? []).map(normalizeEntityTag)
}

/** Reads a path parameter. PostgreSQL refuses NUL, so a parameter with NUL is read as empty, which no entry has. */
function readParam({ params }: Request, name: string): string {
  const value = params[name]
  return typeof value === 'string' && !value.includes('\0') ? value : ''
}

/** Whether the client has the list with this ETag, and does not ask for a reload. */
function isFresh({ headers }: Request, etag: string): boolean {
  return !/\bno-cache\b/i.test(headers['cache-control'] ?? '') && listsEntityTag(headers['if-none-match'], etag)
}

function requireUser({ auth }: Request): string {
  if (auth === undefined) throw new TypeError('requireDid set no user')
  return auth.canonicalDid
}
