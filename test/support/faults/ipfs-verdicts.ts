import type { IncomingMessage } from 'node:http'
import type { ServerErrorCode } from '../../../servers/http/server-error.js'
import type { IpfsHttpNode } from '../../../servers/ipfs/ipfs-rpc-client.js'
import { cidOf } from '../../../servers/content/unixfs-blocks.js'
import type { Answer, IpfsFault, IpfsVerb } from './ipfs-faults.js'
import { scaled } from '../fixtures/time-factor.js'

const UNAVAILABLE = 'ERR_IPFS_UNAVAILABLE'
const TIMEOUT = 'ERR_IPFS_TIMEOUT'
const BAD_RESPONSE = 'ERR_IPFS_BAD_RESPONSE'

export const tenBytes = Buffer.from('0123456789')
export const tenCid = 'bafkreiee3cmhp4guaqppw27zdilpajepf7kxhzvpaxaz7fv63opyql3yqi'

/** Expected results by fault and verb. `ok`: the fault does not affect the verb or cannot be detected. */
const verdicts: Readonly<
  Record<IpfsFault, ServerErrorCode | Partial<Record<IpfsVerb | 'else', ServerErrorCode | 'ok'>>>
> = {
  refuses: UNAVAILABLE,
  resets: UNAVAILABLE,
  'is silent': TIMEOUT,
  'answers 401': BAD_RESPONSE,
  'answers 500': UNAVAILABLE,
  'answers 503': UNAVAILABLE,
  'answers 404 without end': BAD_RESPONSE,
  'answers 500 without end': BAD_RESPONSE,
  redirects: BAD_RESPONSE,
  'speaks no HTTP': BAD_RESPONSE,
  'is slow': TIMEOUT,
  'is silent after the head': TIMEOUT,
  drips: TIMEOUT,
  'cuts off': UNAVAILABLE,
  'answers nothing': { 'pin/ls': 'ok', else: BAD_RESPONSE },
  'answers another cid': { 'pin/ls': 'ok', version: 'ok', else: BAD_RESPONSE },
  'answers no cid': { cat: 'ok', else: BAD_RESPONSE },
  'answers garbage': BAD_RESPONSE,
  'answers a page': BAD_RESPONSE,
  'answers other bytes': { cat: BAD_RESPONSE, else: 'ok' },
  'answers a line without end': BAD_RESPONSE,
  // The limit of four million pins is not reached in the time of a test.
  'answers lines without end': { 'pin/ls': TIMEOUT, else: BAD_RESPONSE },
  'answers a compressed line': BAD_RESPONSE
}

/** Returns the result that a client must have for a fault: the code of an error, or `ok`. */
export function expectVerdict(fault: IpfsFault, verb: IpfsVerb): ServerErrorCode | 'ok' {
  const codes = verdicts[fault]
  return typeof codes === 'string' ? codes : (codes[verb] ?? codes.else ?? 'ok')
}

/**
 * Returns the deadline of a call, in milliseconds. It is short only if the call must exceed it. Other calls would
 * otherwise fail on a machine that pauses for a moment.
 */
export function deadlineFor(fault: IpfsFault, verb: IpfsVerb): number {
  return expectVerdict(fault, verb) === TIMEOUT ? 300 : scaled(30_000)
}

/** Calls a verb of a node. */
export function askNode(node: IpfsHttpNode, verb: IpfsVerb): Promise<unknown> {
  if (verb === 'add') return node.add(tenCid, tenBytes)
  if (verb === 'cat') return node.read(tenCid, 1_048_576)
  if (verb === 'pin/ls') return node.listPins()
  if (verb === 'pin/rm') return node.unpin(tenCid)
  return node.ping()
}

/** Returns the code of the error with which a call fails, or `ok`. */
export async function catchCode(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
    return 'ok'
  } catch (error) {
    const { name, code } = error as { name: string; code: string }
    return name === 'ServerError' ? code : String(error)
  }
}

/** State of a node. */
export interface Kept {
  pins: Set<string>
  contents: Map<string, Buffer>
}

/** Executes a request correctly, and returns the answer that Kubo would give. */
export function carryOut(verb: IpfsVerb, url: URL, body: Buffer, { pins, contents }: Kept): Answer {
  const cid = url.searchParams.get('arg') ?? ''
  if (verb === 'version') return json({ Version: '0.29.0', Commit: '', Repo: '15' })
  if (verb === 'pin/ls' && cid !== '') {
    return pins.has(cid) ? json({ Cid: cid, Type: 'recursive' }) : createError(`path '${cid}' is not pinned`)
  }
  if (verb === 'pin/ls') return json(...[...pins].map((pin) => ({ Cid: pin, Type: 'recursive' })))
  if (verb === 'pin/rm') {
    return pins.delete(cid) ? json({ Pins: [cid] }) : createError('not pinned or pinned indirectly')
  }
  if (verb === 'cat') {
    const bytes = contents.get(cid)
    if (bytes === undefined) return createError('block was not found locally (offline): ipld: could not find ' + cid)
    return { status: 200, type: 'text/plain', body: bytes }
  }
  const bytes = fileIn(body)
  const addedCid = cidOf(bytes)
  contents.set(addedCid, bytes)
  pins.add(addedCid)
  return json({ Name: addedCid, Hash: addedCid, Size: String(bytes.length) })
}

/** Returns the only file of a multipart body. */
function fileIn(body: Buffer): Buffer {
  const boundary = body.subarray(0, body.indexOf('\r\n'))
  return body.subarray(body.indexOf('\r\n\r\n') + 4, body.lastIndexOf(Buffer.concat([Buffer.from('\r\n'), boundary])))
}

/** Whether a request has the user and password that the node requires. */
export function isAllowed(req: IncomingMessage, credentials: string | undefined): boolean {
  if (credentials === undefined) return true
  return req.headers.authorization === `Basic ${Buffer.from(credentials).toString('base64')}`
}

function json(...lines: object[]): Answer {
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('')
  return { status: 200, type: 'application/json', body: Buffer.from(text) }
}

function createError(message: string): Answer {
  return { ...json({ Message: message, Code: 0, Type: 'error' }), status: 500 }
}

/** Returns an answer that is not JSON. */
export function plain(status: number, text: string): Answer {
  return { status, type: 'text/plain', body: Buffer.from(text) }
}
