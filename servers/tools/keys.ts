import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { didOfPrivateKey } from 'express-did-auth'
import { isUserNetwork, toNetwork } from 'express-did-auth/server-kit'
import { startStep } from '../config/startup-error.js'
import { readArguments, UsageError, type CommandLine } from './command-line.js'

const DEFAULT_NETWORK = 'rsk'
const OPTIONS = { network: { type: 'string' }, out: { type: 'string' }, json: { type: 'boolean' } } as const

/** Runs `keys new`: prints a new identity, or writes it to a new file. @throws UsageError; StartError */
export async function runKeys({ args, out }: CommandLine): Promise<number> {
  const { values, positionals } = readArguments(args, OPTIONS, [1, 1])
  if (positionals[0] !== 'new') throw new UsageError(`Unknown command: keys ${positionals[0] ?? ''}`)
  const { network: named = DEFAULT_NETWORK, out: file } = values
  const network = toNetwork(named)
  if (!isUserNetwork(network)) throw new UsageError('--network must be a network, such as rsk, rsk:testnet or ethereum')
  const identity = newIdentity()
  // One of about 2^128 random numbers is not a valid key. This command then fails.
  const serviceDid = await didOfPrivateKey(identity.PRIVATE_KEY, network)
  // SERVICE_DID is not written, because it would become wrong when the key or the network changes.
  const settings = { ...identity, ...(named !== DEFAULT_NETWORK && { NETWORK_NAME: named }) }
  const text = values.json === true ? JSON.stringify(settings) : formatVariables(settings, serviceDid).join('\n')
  if (file !== undefined) {
    startStep(`Cannot write ${file}`, () => writeFileSync(file, `${text}\n`, { flag: 'wx', mode: 0o600 }))
  }
  out(file === undefined ? text : `Wrote ${Object.keys(settings).join(', ')} of ${serviceDid} to ${file}.`)
  return 0
}

function newIdentity(): Record<'PRIVATE_KEY' | 'CHALLENGE_SECRET' | 'RESOURCE_KEY', string> {
  const [PRIVATE_KEY, CHALLENGE_SECRET, RESOURCE_KEY] = [newSecret(), newSecret(), newSecret()]
  return { PRIVATE_KEY, CHALLENGE_SECRET, RESOURCE_KEY }
}

const newSecret = (): string => randomBytes(32).toString('hex')

/** Formats variables as lines of `.env`, each with a comment that explains its purpose. */
function formatVariables(settings: Readonly<Record<string, string>>, serviceDid: string): string[] {
  const comments: Readonly<Record<string, string>> = {
    PRIVATE_KEY: `Signs the tokens of the service. The DID of the service is derived from it: ${serviceDid}`,
    CHALLENGE_SECRET: 'Authenticates the challenges that the service issues.',
    RESOURCE_KEY: 'Signs the tokens that auth issues for relay, vault and the services in RESOURCES.',
    NETWORK_NAME: "Network of the service's DID."
  }
  const lines = Object.entries(settings).flatMap(([name, value]) => [`# ${comments[name] ?? ''}`, `${name}=${value}`])
  return ['# Secrets of one service. All its servers and instances need the same values.', ...lines]
}
