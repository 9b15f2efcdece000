import { parseArgs, type ParseArgsConfig } from 'node:util'
import { parseHttpUrl } from 'express-did-auth/server-kit'
import type { EnvFile } from '../config/read-env.js'

/** Arguments, environment and output of a command. */
export interface CommandLine {
  args: readonly string[]
  /** Environment variables of the process, and those of `envFile` that the process does not set. */
  env: Readonly<Record<string, string | undefined>>
  /** Writes a line to standard output. */
  out: (line: string) => void
  /** Whether standard output is a terminal. */
  isTerminal: boolean
  envFile?: EnvFile | undefined
}

/** Error for wrong arguments. The caller prints its message and the usage, and exits with code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** Parses options, and between `least` and `most` positional arguments. @throws UsageError for wrong arguments */
export function readArguments<const T extends NonNullable<ParseArgsConfig['options']>>(
  args: readonly string[],
  options: T,
  [least, most]: readonly [number, number]
): ReturnType<typeof parseArgs<{ args: string[]; options: T; allowPositionals: true; strict: true }>> {
  let parsed
  try {
    parsed = parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (error) {
    // Only the first sentence is kept, because Node adds advice on quoting.
    const [sentence = ''] = error instanceof Error ? error.message.split('. ') : []
    throw new UsageError(sentence)
  }
  const { length } = parsed.positionals
  if (length < least) throw new UsageError('A required argument is missing')
  if (length > most) throw new UsageError(`Unexpected argument: ${parsed.positionals.at(-1) ?? ''}`)
  return parsed
}

/** Parses an argument as a URL. @throws UsageError if it is not an http(s) URL */
export function readUrl(text: string): URL {
  const url = parseHttpUrl(text)
  if (url === undefined) throw new UsageError(`${text} is not an http(s) URL`)
  return url
}

/** Parses the arguments of `--origin`. @throws UsageError if one of them is not an origin */
export function readOrigins(texts: readonly string[] = []): readonly string[] {
  const invalidOrigin = texts.find((text) => readUrl(text).origin !== text)
  if (invalidOrigin === undefined) return texts
  throw new UsageError(`${invalidOrigin} is not an origin, such as https://app.example`)
}

const CODES = { red: 31, green: 32, yellow: 33, dim: 2 } as const
/** Adds colour to a text, or returns it unchanged. */
export type Paint = (colour: keyof typeof CODES, text: string) => string

/** Creates a function that adds colours on a terminal, unless `NO_COLOR` is set. @see https://no-color.org */
function createPainter({ env, isTerminal }: Pick<CommandLine, 'env' | 'isTerminal'>): Paint {
  const isColoured = isTerminal && (env.NO_COLOR ?? '') === ''
  return (colour, text) => (isColoured ? `\u001B[${CODES[colour]}m${text}\u001B[0m` : text)
}

/** Control characters, and invisible characters that change how a terminal shows text. */
const TERMINAL_CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** Removes characters that control a terminal from untrusted text. */
export function toPrintable(text: string): string {
  return text.replace(TERMINAL_CONTROLS, '')
}

/** Prints a report: as JSON, or as lines that have colours on a terminal. */
export function printReport<T>(
  commandLine: CommandLine,
  report: T,
  isJson: boolean,
  format: (report: T, paint: Paint) => string[]
): void {
  const lines = isJson ? [toPrintableJson(report)] : format(report, createPainter(commandLine))
  for (const line of lines) commandLine.out(line)
}

/** Formats a value as JSON. Characters that control a terminal are escaped, so parsing returns the same value. */
function toPrintableJson(value: unknown): string {
  // A JSON escape represents one UTF-16 code unit, so characters above U+FFFF need two.
  const escapeUnit = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value).replace(TERMINAL_CONTROLS, (character) => character.split('').map(escapeUnit).join(''))
}
