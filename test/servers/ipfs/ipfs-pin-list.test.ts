import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { CID, digest } from 'multiformats'
import type { ServerResponse } from 'node:http'
import { IpfsCall } from '../../../servers/ipfs/ipfs-call.js'
import { ipfsHttpNode, type IpfsHttpNode } from '../../../servers/ipfs/ipfs-rpc-client.js'
import { closeServices, serving } from '../../support/server-client.js'
import { until } from '../../support/until.js'

let node: IpfsHttpNode
/** The answer to the call that is under way. */
let answer: ServerResponse | undefined
let pinsSent = 0

/** Counts lines that arrived, for each of which the deadline begins again. */
const arrived = jest.spyOn(IpfsCall.prototype, 'restartDeadline')

beforeEach(async () => {
  answer = undefined
  pinsSent = 0
  arrived.mockClear()
  const url = await serving((_req, res) => {
    answer = res.writeHead(200, { 'Content-Type': 'application/json' })
  })
  node = ipfsHttpNode(url, { deadlineMilliseconds: 1_000, listMilliseconds: 5_000 })
  // The deadlines of the client are the test's; connections take the time that they take.
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'performance', 'Date'] })
})
afterEach(() => {
  jest.useRealTimers()
  closeServices()
})

/** Lines about so many pins, each another than all before. */
function linesOf(count: number): string {
  const hash = Buffer.alloc(32)
  return Array.from({ length: count }, () => {
    hash.writeUInt32BE((pinsSent += 1))
    return `{"Cid":"${CID.createV1(0x55, digest.create(0x12, hash)).toString()}","Type":"recursive"}\n`
  }).join('')
}

/** Sends lines, and waits until the client has read them. */
async function send(count: number): Promise<void> {
  await until(() => answer !== undefined)
  answer!.write(linesOf(count))
  await until(() => arrived.mock.calls.length === pinsSent)
}

/** Asks for the list. What it ends with is caught at once, because it may come before somebody awaits it. */
function list(): Promise<number | string> {
  return node.listPins().then(
    (pins) => pins.size,
    (error: unknown) => (error as { code: string }).code
  )
}

describe('a list of pins', () => {
  it('may be longer than any other answer', async () => {
    const listed = list()
    await send(20_000)
    answer!.end()
    expect(await listed).toBe(20_000)
  })

  it('may take longer than the deadline of 1 s, as long as more of it comes', async () => {
    const listed = list()
    for (let piece = 0; piece < 4; piece += 1) {
      await send(10)
      jest.advanceTimersByTime(999)
    }
    answer!.end()
    expect(await listed).toBe(40)
  })

  it('is over when nothing comes for as long as the deadline', async () => {
    const listed = list()
    await send(10)
    jest.advanceTimersByTime(999)
    await send(10)
    jest.advanceTimersByTime(1_000)
    expect(await listed).toBe('ERR_IPFS_TIMEOUT')
  })

  it('is over after a time of its own of 5 s, however much still comes', async () => {
    const listed = list()
    for (let second = 0; second < 5; second += 1) {
      await send(1)
      jest.advanceTimersByTime(999)
    }
    await send(1)
    jest.advanceTimersByTime(5)
    expect(await listed).toBe('ERR_IPFS_TIMEOUT')
  })
})
