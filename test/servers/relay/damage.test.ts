import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { openSync, rmSync, writeSync, closeSync } from 'node:fs'
import { join } from 'node:path'
import { closeServices, serving } from '../../support/servers/server-client.js'
import { HandMadeNode } from '../../support/faults/hand-made-node.js'
import { getFile, logIn, postFile, startTestRelay, type TestRelay } from '../../support/servers/relay-app.js'
import { filesIn } from '../../support/fixtures/store-folder.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const LEAF_BYTES = 262_144

let relay: TestRelay
let token: string

beforeEach(async () => {
  relay = await startTestRelay()
  token = await logIn(relay, createNumberedWallet(1))
})

afterEach(async () => {
  closeServices()
  await relay.end()
})

const storeFile = async (file: string): Promise<string> => (await postFile(relay, token, file)).body.cid

/** Finds the file of the only object. */
const findObjectFile = (): string => filesIn(join(relay.folder, 'relay', 'objects'))[0]!

function damageAt(position: number): void {
  const file = openSync(findObjectFile(), 'r+')
  writeSync(file, 'X', position)
  closeSync(file)
}

/** Reads a file over a connection that may break. */
async function readOverHttp(cid: string): Promise<string> {
  const response = await fetch(`${await serving(relay.listener)}/file/${cid}`, { headers: { Authorization: token } })
  expect(response.status).toBe(200)
  return await response.text()
}

describe('GET /file/{cid} of a damaged file', () => {
  it.each([
    ['a cached file', 300_000],
    ['a streamed file', 8 * LEAF_BYTES]
  ])('answers 502 if the first 256 KiB are damaged, and if the file is missing: %s', async (_name, byteCount) => {
    const cid = await storeFile('a'.repeat(byteCount))
    damageAt(7)
    const damaged = await getFile(relay, token, cid)
    expect([damaged.status, damaged.text]).toEqual([502, 'Content missing'])
    rmSync(findObjectFile())
    expect((await getFile(relay, token, cid)).status).toBe(502)
  })

  it('breaks the connection if a later part is damaged, and never sends wrong bytes', async () => {
    const cid = await storeFile('a'.repeat(8 * LEAF_BYTES))
    damageAt(6 * LEAF_BYTES)
    await expect(readOverHttp(cid)).rejects.toThrow()
  })
})

describe('GET /file/{cid} of a damaged file that the IPFS node stores', () => {
  const node = new HandMadeNode()

  beforeEach(async () => {
    await relay.end()
    relay = await startTestRelay({}, { node })
    token = await logIn(relay, createNumberedWallet(1))
  })

  it.each([
    ['cached, damaged', 300_000, 7],
    ['cached, lost', 300_000, undefined],
    ['streamed, damaged at its start', 8 * LEAF_BYTES, 7],
    ['streamed, damaged later', 8 * LEAF_BYTES, 6 * LEAF_BYTES + 1],
    ['streamed, lost', 8 * LEAF_BYTES, undefined]
  ])('returns the whole file, and repairs it: %s', async (_name, byteCount, position) => {
    const text = 'a'.repeat(byteCount)
    const cid = await storeFile(text)
    if (position === undefined) rmSync(findObjectFile())
    else damageAt(position)
    expect(await readOverHttp(cid)).toBe(`{"file":"${text}"}`)
    expect(relay.log().filter(({ event }) => event === 'content-repaired')).toHaveLength(1)
    node.contents.clear()
    relay.clock.seconds += 1
    expect((await getFile(relay, token, cid)).status).toBe(200)
  })

  it('answers 502 if the node returns other bytes', async () => {
    const cid = await storeFile('a'.repeat(300_000))
    node.contents.set(cid, Buffer.from('b'.repeat(300_000)))
    damageAt(7)
    expect((await getFile(relay, token, cid)).status).toBe(502)
  })
})
