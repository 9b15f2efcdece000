import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { takedownAt } from '../../../servers/commands/takedown.js'
import { runCommand } from '../../support/command-line.js'
import { getFile, logIn, postFile, startTestRelay, type TestRelay } from '../../support/relay-app.js'
import { filesIn, temporaryFolder } from '../../support/store-folder.js'
import { walletOf } from '../../support/wallet.js'

let relay: TestRelay
let token: string

beforeEach(async () => {
  relay = await startTestRelay()
  token = await logIn(relay, walletOf(1))
})

afterEach(() => relay.end())

async function run(...args: string[]): Promise<[number, string[]]> {
  const { code, lines } = await runCommand(takedownAt('relay'), args, { DATA_DIR: relay.folder })
  return [code, lines]
}

const posted = async (file: string): Promise<string> => (await postFile(relay, token, file)).body.cid
const status = async (cid: string): Promise<number> => (await getFile(relay, token, cid)).status

/** All that lies in the folder of the relay. */
const stored = (): string =>
  filesIn(join(relay.folder, 'relay'))
    .map((file) => readFileSync(file, 'latin1'))
    .join()

describe('relay takedown', () => {
  it.each([
    ['in a row', 'a secret that must go'],
    ['in an object', 'a secret that must go'.repeat(10_000)]
  ])('removes a file %s with its bytes, beside the relay, which answers 451 a second later', async (_where, file) => {
    const cid = await posted(file)
    expect(await status(cid)).toBe(200)
    expect(stored()).toContain('a secret that must go')
    const [code, lines] = await run(cid)
    expect(lines[0]).toBe(`Removed 1 file. ${cid} is refused from now on.`)
    expect(code).toBe(0)
    expect(stored()).not.toContain('a secret that must go')
    relay.clock.seconds += 1
    const refused = await getFile(relay, token, cid)
    expect([refused.status, refused.text]).toEqual([451, 'Taken down'])
    expect((await postFile(relay, token, file)).status).toBe(451)
  })

  it('says that there is no relay', async () => {
    const folder = temporaryFolder()
    const command = runCommand(takedownAt('relay'), [await posted('a')], { DATA_DIR: folder.path })
    await expect(command).rejects.toThrow(`There is no relay in ${folder.path}/relay/relay.db (DATA_DIR)`)
    folder.remove()
  })
})
