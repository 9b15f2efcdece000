import { afterAll, describe, expect, it } from '@jest/globals'
import { computeAddress } from 'ethers'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { UsageError } from '../../../servers/commands/command-line.js'
import { readEnv } from '../../../servers/config/read-env.js'
import { runKeys } from '../../../servers/commands/keys.js'
import { runCommand } from '../../support/command-line.js'
import { temporaryFolder } from '../../support/store-folder.js'

const folder = temporaryFolder()
const HEX = expect.stringMatching(/^[0-9a-f]{64}$/)
afterAll(() => folder.remove())

async function keys(...args: string[]): Promise<string> {
  const { code, lines } = await runCommand(runKeys, args)
  expect(code).toBe(0)
  return lines.join('\n')
}

describe('keys new', () => {
  it('prints all variables for .env, without a DID that follows from the key, others each time', async () => {
    const first = await keys('new')
    const { PRIVATE_KEY: key, ...others } = parseEnv(first)
    expect(others).toEqual({ CHALLENGE_SECRET: HEX, RESOURCE_KEY: HEX })
    const did = `did:ethr:rsk:${computeAddress(`0x${key!}`).toLowerCase()}`
    expect(first).toContain(
      `# Signs the tokens of the service. The DID of the service is derived from it: ${did}\nPRIVATE_KEY=`
    )
    expect(readEnv(parseEnv(first), 'auth', false)).toMatchObject({ PRIVATE_KEY: [key], RESOURCE_KEY: [HEX] })
    expect(await keys('new')).not.toBe(first)
  })

  it.each([
    ['rsk:testnet', { NETWORK_NAME: 'rsk:testnet' }],
    ['ethereum', { NETWORK_NAME: 'ethereum' }]
  ])('prints JSON, and for the network %s the variable that the DID follows from', async (network, variable) => {
    const secrets = { PRIVATE_KEY: HEX, CHALLENGE_SECRET: HEX, RESOURCE_KEY: HEX }
    expect(JSON.parse(await keys('new', '--json', '--network', network))).toEqual({ ...secrets, ...variable })
  })

  it('writes a file that only its owner reads, and never over another', async () => {
    const file = join(folder.path, '.env')
    expect(await keys('new', '--out', file)).toMatch(
      /^Wrote PRIVATE_KEY, CHALLENGE_SECRET, RESOURCE_KEY of did:ethr:rsk:0x[0-9a-f]{40} to .*\.env\.$/
    )
    const written = readFileSync(file, 'utf8')
    expect(parseEnv(written)).toEqual({ PRIVATE_KEY: HEX, CHALLENGE_SECRET: HEX, RESOURCE_KEY: HEX })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    await expect(keys('new', '--out', file)).rejects.toThrow(
      `Cannot write ${file}: a file with this name exists already`
    )
    expect(readFileSync(file, 'utf8')).toBe(written)
  })

  it.each([
    [],
    ['old'],
    ['new', 'old'],
    ['new', '--size=4'],
    ['new', '--network', 'a b'],
    ['new', '--network', 'mainnet']
  ])('refuses %j', (...args) => expect(keys(...args.flat())).rejects.toThrow(UsageError))
})
