import { afterAll, describe, expect, it } from '@jest/globals'
import { computeAddress } from 'ethers'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { UsageError } from '../../../servers/commands/command-line.js'
import { runKeys } from '../../../servers/commands/keys.js'
import { runCommand } from '../../support/command-line.js'
import { temporaryFolder } from '../../support/store-folder.js'

const folder = temporaryFolder()
afterAll(() => folder.remove())

async function keys(...args: string[]): Promise<string> {
  const { code, lines } = await runCommand(runKeys, args)
  expect(code).toBe(0)
  return lines.join('\n')
}

describe('keys new', () => {
  it('prints variables that belong together, others each time', async () => {
    const form =
      /^PRIVATE_KEY=([0-9a-f]{64})\nCHALLENGE_SECRET=[0-9a-f]{64}\nSERVICE_DID=did:ethr:rsk:(0x[0-9a-f]{40})$/
    const first = await keys('new')
    const [, key, address] = form.exec(first)!
    expect(computeAddress(`0x${key!}`).toLowerCase()).toBe(address)
    expect(await keys('new')).not.toBe(first)
  })

  it('prints JSON, for a network of choice', async () => {
    const identity = JSON.parse(await keys('new', '--json', '--network', 'rsk:testnet'))
    expect(Object.keys(identity)).toEqual(['PRIVATE_KEY', 'CHALLENGE_SECRET', 'SERVICE_DID'])
    expect(identity.SERVICE_DID).toMatch(/^did:ethr:rsk:testnet:0x[0-9a-f]{40}$/)
  })

  it('writes a file that its owner alone reads, and never over another', async () => {
    const file = join(folder.path, '.env')
    expect(await keys('new', '--out', file)).toBe(`Wrote PRIVATE_KEY, CHALLENGE_SECRET, SERVICE_DID to ${file}`)
    const written = readFileSync(file, 'utf8')
    expect(written).toMatch(/^PRIVATE_KEY=.*\nCHALLENGE_SECRET=.*\nSERVICE_DID=.*\n$/)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    await expect(keys('new', '--out', file)).rejects.toThrow(`Cannot write ${file}: a file is in its place`)
    expect(readFileSync(file, 'utf8')).toBe(written)
  })

  it.each([[], ['old'], ['new', 'old'], ['new', '--size=4'], ['new', '--network', 'a b']])('refuses %j', (...args) =>
    expect(keys(...args.flat())).rejects.toThrow(UsageError)
  )
})
