import { parseArgs, type ParseArgsConfig } from 'node:util'
import { parseHttpUrl } from 'express-did-auth/server-kit'
import type { EnvFile } from '../config/read-env.js'

/** Arguments, environment and output of a command. */
export interface CommandLine {
  args: readonly string[]
  /** Variables of the process, and those of `envFile` that it does not set. */
  env: Readonly<Record<string, string | undefined>>
  /** Writes a line to standard output. */
  out: (line: string) => void
  isTerminal: boolean
  envFile?: EnvFile | undefined
}

/** Wrong arguments, in one sentence: the caller shows it with the usage, and exits with 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** Reads options, and so many positional arguments at least and at most. @throws UsageError for anything else */
export function readArguments<const T extends NonNullable<ParseArgsConfig['options']>>(
  args: readonly string[],
  options: T,
  [least, most]: readonly [number, number]
): ReturnType<typeof parseArgs<{ args: string[]; options: T; allowPositionals: true; strict: true }>> {
  let parsed
  try {
    parsed = parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (error) {
    // Node adds advice on how to quote.
    const [sentence = ''] = error instanceof Error ? error.message.split('. ') : []
    throw new UsageError(sentence)
  }
  const { length } = parsed.positionals
  if (length < least) throw new UsageError('An argument is missing')
  if (length > most) throw new UsageError(`Unexpected argument: ${parsed.positionals.at(-1) ?? ''}`)
  return parsed
}

/** @throws UsageError when it is not an http(s) URL */
export function readUrl(text: string): URL {
  const url = parseHttpUrl(text)
  if (url === undefined) throw new UsageError(`${text} is not an http(s) URL`)
  return url
}

const CODES = { red: 31, green: 32, yellow: 33, dim: 2 } as const
/** Colours a text, or leaves it as it is. */
export type Paint = (colour: keyof typeof CODES, text: string) => string

/** Colours on a terminal, unless `NO_COLOR` is set. @see https://no-color.org */
export function createPainter({ env, isTerminal }: Pick<CommandLine, 'env' | 'isTerminal'>): Paint {
  const isColoured = isTerminal && (env.NO_COLOR ?? '') === ''
  return (colour, text) => (isColoured ? `\u001B[${CODES[colour]}m${text}\u001B[0m` : text)
}

const COMMANDING = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** A text that may be a stranger's, without characters that command a terminal. */
export function toPrintable(text: string): string {
  return text.replace(COMMANDING, '')
}

/** JSON of texts that may be a stranger's: the same value, with characters that command a terminal as escapes. */
export function toPrintableJson(value: unknown): string {
  const escaped = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value).replace(COMMANDING, (one) => one.split('').map(escaped).join(''))
}
