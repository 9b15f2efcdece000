import { readBounded } from 'express-did-auth/server-kit'
import { cidOf } from '../storage/unixfs-blocks.js'
import { IpfsCall } from './ipfs-call.js'
import { ipfsFailure, type IpfsNode, isNotPinned } from './ipfs-node.js'
import { endpointOf, loadIpfsClient, type Cid, type IpfsClient } from './load-ipfs-client.js'
import { ServerError } from '../http/server-error.js'

const DEADLINE_MILLISECONDS = 10_000
const LIST_MILLISECONDS = 300_000
/** A head, and an answer of one line or an error. */
const SHORT_ANSWER_BYTES = 65_536
/** Bytes around one pin in a list, and how many pins there may be: about 500 MB of memory. */
const PIN_BYTES = 512
const MAX_PINS = 4_000_000
/** The encoding of an answer in chunks: at worst seven bytes around each one. */
const CHUNKED = 8

/** How every node has to split content, so that its cid is ours. */
const ADD_OPTIONS = {
  cidVersion: 1,
  rawLeaves: true,
  chunker: 'size-262144',
  hashAlg: 'sha2-256',
  pin: true,
  wrapWithDirectory: false
}

/** A node behind its RPC API. */
export interface IpfsHttpNode extends IpfsNode {
  /** Ends all calls with ERR_IPFS_UNAVAILABLE. */
  close(): void
}

/**
 * The node at a URL of its RPC API (Kubo, js-ipfs), through ipfs-http-client, which is loaded with the first call.
 *
 * Calls end after `deadlineMilliseconds`, also where the client does not heed its signal; a list of pins after so long
 * without one more, and after `listMilliseconds` in any case. Answers are bounded: 64 KiB, the content that is read, or
 * four million pins. Redirects are not followed.
 *
 * @param url - its path, if it has one, replaces `/api/v0`; a user and a password in it are sent in a header,
 *   and are in no error
 */
export function ipfsHttpNode(
  url: string,
  {
    deadlineMilliseconds = DEADLINE_MILLISECONDS,
    listMilliseconds = LIST_MILLISECONDS
  }: { deadlineMilliseconds?: number; listMilliseconds?: number } = {}
): IpfsHttpNode {
  const endpoint = endpointOf(url)
  const calls = new Set<IpfsCall>()
  let client: IpfsClient | undefined
  let isClosed = false

  async function ask<T>(maxAnswerBytes: number, work: (client: IpfsClient, call: IpfsCall) => Promise<T>): Promise<T> {
    const ready = (client ??= (await loadIpfsClient())(endpoint))
    if (isClosed) throw new ServerError('ERR_IPFS_UNAVAILABLE')
    const call = new IpfsCall(maxAnswerBytes, deadlineMilliseconds)
    calls.add(call)
    try {
      return await call.run(() => work(ready, call))
    } catch (error) {
      throw error instanceof ServerError ? error : ipfsFailure(error)
    } finally {
      calls.delete(call)
    }
  }

  return {
    add: (cid, bytes) =>
      ask(SHORT_ANSWER_BYTES, async (client, { signal }) => {
        const added = await client.add(bytes, { ...ADD_OPTIONS, signal })
        assertSame(added?.cid, cid)
      }),
    unpin: (cid) =>
      ask(SHORT_ANSWER_BYTES, async (client, { signal }) => {
        try {
          assertSame(await client.pin.rm(cid, { signal }), cid)
        } catch (error) {
          if (!isNotPinned(error)) throw error
        }
      }),
    read: (cid, maxBytes) =>
      ask(maxBytes * CHUNKED + SHORT_ANSWER_BYTES, async (client, { signal }) => {
        const tooLong = (): Error => new ServerError('ERR_IPFS_BAD_RESPONSE')
        const bytes = await readBounded(client.cat(cid, { signal }), maxBytes, tooLong)
        assertSame(cidOf(bytes), cid)
        return bytes
      }),
    listPins: () =>
      ask(SHORT_ANSWER_BYTES, async (client, call) => {
        call.endAfter(listMilliseconds)
        const pins = new Set<string>()
        let count = 0
        for await (const { cid } of client.pin.ls({ type: 'recursive', signal: call.signal })) {
          pins.add(String(cid))
          count += 1
          if (count > MAX_PINS) throw new ServerError('ERR_IPFS_BAD_RESPONSE')
          // A line without end would be collected: only the next few pins are allowed for.
          call.maxBytes += PIN_BYTES
          call.restartDeadline()
        }
        return pins
      }),
    ping: () =>
      ask(SHORT_ANSWER_BYTES, async (client, { signal }) => {
        const { version } = await client.version({ signal })
        if (typeof version !== 'string') throw new ServerError('ERR_IPFS_BAD_RESPONSE')
      }),
    close() {
      isClosed = true
      for (const call of calls) call.end('ERR_IPFS_UNAVAILABLE')
    }
  }
}

function assertSame(answered: Cid | undefined, cid: string): void {
  if (answered === undefined || String(answered) !== cid) throw new ServerError('ERR_IPFS_BAD_RESPONSE')
}
