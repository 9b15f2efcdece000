import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { didOfPrivateKey } from 'express-did-auth'
import { isEthrNetwork } from 'express-did-auth/protocol'
import { startStep } from '../config/startup-error.js'
import { readArguments, UsageError, type CommandLine } from './command-line.js'

const OPTIONS = { network: { type: 'string' }, out: { type: 'string' }, json: { type: 'boolean' } } as const

/** `keys new`: prints a new identity, or writes it to a new file. @throws UsageError; StartError when it cannot */
export async function runKeys({ args, out }: CommandLine): Promise<number> {
  const { values, positionals } = readArguments(args, OPTIONS, [1, 1])
  if (positionals[0] !== 'new') throw new UsageError(`Unknown command: keys ${positionals[0] ?? ''}`)
  const { network = 'rsk', out: file } = values
  if (!isEthrNetwork(network)) throw new UsageError('--network: give a network, such as rsk or rsk:testnet')
  // One number of 2^128 is no key, and has no DID: then this command fails.
  const key = randomBytes(32).toString('hex')
  const identity = {
    PRIVATE_KEY: key,
    CHALLENGE_SECRET: randomBytes(32).toString('hex'),
    SERVICE_DID: await didOfPrivateKey(key, network)
  }
  const lines = Object.entries(identity).map(([name, value]) => `${name}=${value}`)
  const text = values.json === true ? JSON.stringify(identity) : lines.join('\n')
  if (file !== undefined) {
    startStep(`Cannot write ${file}`, () => writeFileSync(file, `${text}\n`, { flag: 'wx', mode: 0o600 }))
  }
  out(file === undefined ? text : `Wrote ${Object.keys(identity).join(', ')} to ${file}`)
  return 0
}
