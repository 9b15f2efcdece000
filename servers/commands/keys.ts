import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { didOfPrivateKey } from 'express-did-auth'
import { isEthrNetwork } from 'express-did-auth/protocol'
import { isNoMainnet, toNetwork } from '../config/env-schema.js'
import { startStep } from '../config/startup-error.js'
import { readArguments, UsageError, type CommandLine } from './command-line.js'

const DEFAULT_NETWORK = 'rsk'
const OPTIONS = { network: { type: 'string' }, out: { type: 'string' }, json: { type: 'boolean' } } as const

/** Prints a new identity (`keys new`), or writes it to a new file. @throws UsageError; StartError when it cannot */
export async function runKeys({ args, out }: CommandLine): Promise<number> {
  const { values, positionals } = readArguments(args, OPTIONS, [1, 1])
  if (positionals[0] !== 'new') throw new UsageError(`Unknown command: keys ${positionals[0] ?? ''}`)
  const { network: named = DEFAULT_NETWORK, out: file } = values
  const network = toNetwork(named)
  if (!isEthrNetwork(network) || !isNoMainnet(network))
    throw new UsageError('--network: give a network, such as rsk, rsk:testnet or ethereum')
  const identity = newIdentity()
  // One number of 2^128 is no key, and has no DID: then this command fails.
  const serviceDid = await didOfPrivateKey(identity.PRIVATE_KEY, network)
  // SERVICE_DID is not written: after a move or a rotation, it would be that of another key.
  const settings = { ...identity, ...(named !== DEFAULT_NETWORK && { NETWORK_NAME: named }) }
  const text = values.json === true ? JSON.stringify(settings) : linesOf(settings, serviceDid).join('\n')
  if (file !== undefined) {
    startStep(`Cannot write ${file}`, () => writeFileSync(file, `${text}\n`, { flag: 'wx', mode: 0o600 }))
  }
  out(file === undefined ? text : `Wrote ${Object.keys(settings).join(', ')} of ${serviceDid} to ${file}`)
  return 0
}

function newIdentity(): Record<'PRIVATE_KEY' | 'CHALLENGE_SECRET' | 'RESOURCE_KEY', string> {
  const [PRIVATE_KEY, CHALLENGE_SECRET, RESOURCE_KEY] = [newSecret(), newSecret(), newSecret()]
  return { PRIVATE_KEY, CHALLENGE_SECRET, RESOURCE_KEY }
}

const newSecret = (): string => randomBytes(32).toString('hex')

/** Writes variables for `.env`, each below a comment that says what it is for. */
function linesOf(settings: Readonly<Record<string, string>>, serviceDid: string): string[] {
  const comments: Readonly<Record<string, string>> = {
    PRIVATE_KEY: `Signs the tokens of the service, whose DID follows from it: ${serviceDid}`,
    CHALLENGE_SECRET: 'Challenges are computed from it.',
    RESOURCE_KEY: 'Signs the tokens of auth for relay, vault and the services in RESOURCES.',
    NETWORK_NAME: "Network of the service's DID."
  }
  const lines = Object.entries(settings).flatMap(([name, value]) => [`# ${comments[name] ?? ''}`, `${name}=${value}`])
  return ['# Secrets of one service. All its servers and instances have the same.', ...lines]
}
