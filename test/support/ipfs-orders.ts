import { contentOf } from '../../servers/storage/unixfs-blocks.js'
import type { IncomingMessage } from 'node:http'
import type { Answer, IpfsVerb } from './ipfs-faults.js'

/** What a node keeps. */
export interface Kept {
  pins: Set<string>
  contents: Map<string, Buffer>
}

/** What an honest node does with an order, and what it answers, in the words of Kubo. */
export function carryOut(verb: IpfsVerb, url: URL, body: Buffer, { pins, contents }: Kept): Answer {
  const cid = url.searchParams.get('arg') ?? ''
  if (verb === 'version') return json({ Version: '0.29.0', Commit: '', Repo: '15' })
  if (verb === 'pin/ls' && cid !== '') {
    return pins.has(cid) ? json({ Cid: cid, Type: 'recursive' }) : trouble(`path '${cid}' is not pinned`)
  }
  if (verb === 'pin/ls') return json(...[...pins].map((pin) => ({ Cid: pin, Type: 'recursive' })))
  if (verb === 'pin/rm') {
    return pins.delete(cid) ? json({ Pins: [cid] }) : trouble('not pinned or pinned indirectly')
  }
  if (verb === 'cat') {
    const bytes = contents.get(cid)
    if (bytes === undefined) return trouble('block was not found locally (offline): ipld: could not find ' + cid)
    return { status: 200, type: 'text/plain', body: bytes }
  }
  const bytes = fileIn(body)
  const content = contentOf(bytes)
  contents.set(content.cid, bytes)
  pins.add(content.cid)
  return json({ Name: content.cid, Hash: content.cid, Size: String(content.byteCount) })
}

/** The one file in a multipart body. */
function fileIn(body: Buffer): Buffer {
  const boundary = body.subarray(0, body.indexOf('\r\n'))
  return body.subarray(body.indexOf('\r\n\r\n') + 4, body.lastIndexOf(Buffer.concat([Buffer.from('\r\n'), boundary])))
}

/** Whether the order comes with the user and password that the node wants. */
export function isAllowed(req: IncomingMessage, credentials: string | undefined): boolean {
  if (credentials === undefined) return true
  return req.headers.authorization === `Basic ${Buffer.from(credentials).toString('base64')}`
}

function json(...lines: object[]): Answer {
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('')
  return { status: 200, type: 'application/json', body: Buffer.from(text) }
}

function trouble(message: string): Answer {
  return { ...json({ Message: message, Code: 0, Type: 'error' }), status: 500 }
}

/** An answer that is no JSON. */
export function plain(status: number, text: string): Answer {
  return { status, type: 'text/plain', body: Buffer.from(text) }
}
