import { variableNames } from './env-schema.js'

/** Variables of the options whose names differ; the domains of EIP-4361 are those of the service's own pages. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  serviceSigner: 'PRIVATE_KEY',
  previousServiceDids: 'PRIVATE_KEY',
  resourceIssuer: 'TRUSTED_ISSUER',
  resourceKeys: 'RESOURCE_KEY',
  siwe: 'TRUSTED_ORIGINS'
}

/** Texts of the library that name what only its callers have. */
const TEXTS: readonly [RegExp, string][] = [
  [/the app's `trust proxy` is off/, 'TRUST_PROXY is off'],
  [/pass a logger with debug for the reason/, 'LOG_LEVEL=debug shows the reason'],
  [/, siwe\.domains\b/, '']
]

/** Returns the variable of an option of the library; the option itself where servers have none for it. */
export function variableFor(option: string): string {
  const variable = option.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()
  return OTHER_NAMES[option] ?? (variableNames.includes(variable) ? variable : option)
}

/**
 * Returns a text of the library with variables in place of its options. Names of one word are replaced only where the
 * text says that they are options: `resources` is a word as well.
 */
export function nameVariables(text: string): string {
  const named = TEXTS.reduce((all, [part, replacement]) => all.replace(part, replacement), text)
  return named
    .replace(/\b[a-z]+(?:[A-Z][a-z]+)+\b/g, variableFor)
    .replace(/\bthe option (\w+) decides/, (sentence, option: string) => {
      const variable = variableFor(option)
      return variable === option && !variableNames.includes(option) ? sentence : `the variable ${variable} decides`
    })
    .replace(
      /^( {2}- )(\w+): received/gm,
      (_line, start: string, option: string) => `${start}${variableFor(option)}: received`
    )
}
