import { afterAll, describe, expect, it } from '@jest/globals'
import { computeAddress } from 'ethers/transaction'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { UsageError } from '../../../servers/tools/command-line.js'
import { readEnv } from '../../../servers/config/read-env.js'
import { runKeys } from '../../../servers/tools/keys.js'
import { runCommand } from '../../support/servers/command-line.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'

const folder = temporaryFolder()
const HEX = expect.stringMatching(/^[0-9a-f]{64}$/)
afterAll(() => folder.remove())

async function runKeysCommand(...args: string[]): Promise<string> {
  const { code, lines } = await runCommand(runKeys, args)
  expect(code).toBe(0)
  return lines.join('\n')
}

describe('the command keys new', () => {
  it('prints all variables for .env with new secrets each time, and without the derived DID', async () => {
    const printed = await runKeysCommand('new')
    const { PRIVATE_KEY: key, ...otherVariables } = parseEnv(printed)
    expect(otherVariables).toEqual({ CHALLENGE_SECRET: HEX, RESOURCE_KEY: HEX })
    const did = `did:ethr:rsk:${computeAddress(`0x${key!}`).toLowerCase()}`
    expect(printed).toContain(
      `# Signs the tokens of the service. The DID of the service is derived from it: ${did}\nPRIVATE_KEY=`
    )
    expect(readEnv(parseEnv(printed), 'auth', false)).toMatchObject({ PRIVATE_KEY: [key], RESOURCE_KEY: [HEX] })
    expect(await runKeysCommand('new')).not.toBe(printed)
  })

  it.each([
    ['rsk:testnet', { NETWORK_NAME: 'rsk:testnet' }],
    ['ethereum', { NETWORK_NAME: 'ethereum' }]
  ])('prints JSON with the variable that determines the DID on the network %s', async (network, variable) => {
    const secrets = { PRIVATE_KEY: HEX, CHALLENGE_SECRET: HEX, RESOURCE_KEY: HEX }
    expect(JSON.parse(await runKeysCommand('new', '--json', '--network', network))).toEqual({ ...secrets, ...variable })
  })

  it('writes a file that only its owner can read, and overwrites none', async () => {
    const file = join(folder.path, '.env')
    expect(await runKeysCommand('new', '--out', file)).toMatch(
      /^Wrote PRIVATE_KEY, CHALLENGE_SECRET, RESOURCE_KEY of did:ethr:rsk:0x[0-9a-f]{40} to .*\.env\.$/
    )
    const written = readFileSync(file, 'utf8')
    expect(parseEnv(written)).toEqual({ PRIVATE_KEY: HEX, CHALLENGE_SECRET: HEX, RESOURCE_KEY: HEX })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    await expect(runKeysCommand('new', '--out', file)).rejects.toThrow(
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
  ])('refuses the arguments %j', (...args) => expect(runKeysCommand(...args.flat())).rejects.toThrow(UsageError))
})
