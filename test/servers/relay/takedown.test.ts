import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { UsageError } from '../../../servers/tools/command-line.js'
import { createTakedownCommand } from '../../../servers/tools/takedown.js'
import { runCommand } from '../../support/servers/command-line.js'
import { getFile, logIn, postFile, startTestRelay, type TestRelay } from '../../support/servers/relay-app.js'
import { filesIn, temporaryFolder } from '../../support/fixtures/store-folder.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

/** A key as clients append it. */
const KEY = 'k3y-'.padEnd(43, 'A')
const CID = 'bafkreiayl6g3gitr7ys7kyng7sjywlrgimdoymco3jiyab6rozecmoazne'

let relay: TestRelay
let token: string

beforeEach(async () => {
  relay = await startTestRelay()
  token = await logIn(relay, createNumberedWallet(1))
})

afterEach(() => relay.end())

async function run(...args: string[]): Promise<[number, string[]]> {
  const { code, lines } = await runCommand(createTakedownCommand('relay'), args, { DATA_DIR: relay.folder })
  return [code, lines]
}

const storeFile = async (file: string): Promise<string> => (await postFile(relay, token, file)).body.cid
const readStatus = async (cid: string): Promise<number> => (await getFile(relay, token, cid)).status

/** Returns everything in the folder of the relay. */
const readStored = (): string =>
  filesIn(join(relay.folder, 'relay'))
    .map((file) => readFileSync(file, 'latin1'))
    .join()

describe('the command relay takedown', () => {
  it.each([
    ['in a row', 'a secret that must go'],
    ['in an object', 'a secret that must go'.repeat(10_000)]
  ])('removes a file %s and its bytes while the relay runs, which soon answers 451', async (_where, file) => {
    const cid = await storeFile(file)
    expect(await readStatus(cid)).toBe(200)
    expect(readStored()).toContain('a secret that must go')
    const [code, lines] = await run(cid)
    expect(lines[0]).toBe(`Removed 1 file. ${cid} is refused from now on.`)
    expect(code).toBe(0)
    expect(readStored()).not.toContain('a secret that must go')
    relay.clock.seconds += 1
    const refused = await getFile(relay, token, cid)
    expect([refused.status, refused.text]).toEqual([451, 'Taken down'])
    expect((await postFile(relay, token, file)).status).toBe(451)
  })

  it.each([
    ['the URL of a client', (cid: string) => `relay://${cid}#${KEY}`],
    ['a link to a page', (cid: string) => `https://app.example/open#r=${cid}.${KEY}`],
    ['the URL of the file', (cid: string) => `http://localhost:3001/file/${cid}`],
    ['an IPFS URL', (cid: string) => `ipfs://${cid}`],
    ['a gateway', (cid: string) => `https://ipfs.example/ipfs/${cid}?filename=${KEY}`],
    ['a gateway that names it first', (cid: string) => `https://${cid}.ipfs.dweb.link/`]
  ])('finds the CID in %s, and prints no key', async (_what, createLink) => {
    const cid = await storeFile('a secret that must go')
    for (const flag of ['--dry-run', undefined, '--allow']) {
      const [code, lines] = await run(createLink(cid), ...(flag === undefined ? [] : [flag]))
      expect([code, lines.join()]).toEqual([0, expect.stringContaining(cid)])
      expect(lines.join()).not.toContain(KEY)
    }
    expect(await readStatus(cid)).toBe(404)
  })

  it.each([
    ['a link without a cid', [`relay://bafk#${KEY}`]],
    ['a cid at the end of a longer word', [`relay://a${CID}#${KEY}`]],
    ['a cid at the start of a longer word', [`relay://${CID}a#${KEY}`]],
    ['two cids', [`relay://${CID}#${KEY}`, `relay://${CID.replace(/.$/, 'a')}#${KEY}`]],
    ['a link twice', [`relay://${CID}#${KEY}`, `relay://${CID}#${KEY}`]]
  ])('refuses %s, and prints no key', async (_what, links) => {
    const failure = await run(...links).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(UsageError)
    expect(String(failure)).toBe('UsageError: Give one cid, or one link that contains a cid')
  })

  it('reports that no relay exists', async () => {
    const folder = temporaryFolder()
    const command = runCommand(createTakedownCommand('relay'), [await storeFile('a')], { DATA_DIR: folder.path })
    await expect(command).rejects.toThrow(`There is no relay in ${folder.path}/relay/relay.db (DATA_DIR)`)
    folder.remove()
  })
})
