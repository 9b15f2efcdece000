import { optionVariables, variableNames } from './env-schema.js'
import { describeReasonInWords, getErrorCode, StartError } from './startup-error.js'

/** Variables by the option of the library that they set, directly or in another form. */
const variableByOption: ReadonlyMap<string, string> = new Map([
  ...optionVariables.map(({ variable, option }) => [option, variable] as const),
  ['deviceBinding', 'DEVICE_BINDING'],
  ['machineLogin', 'MACHINE_LOGIN'],
  ['serviceSigner', 'PRIVATE_KEY'],
  ['previousServiceDids', 'PRIVATE_KEY'],
  ['resourceIssuer', 'TRUSTED_ISSUER'],
  ['resourceKeys', 'RESOURCE_KEY'],
  ['resources', 'RESOURCES'],
  ['siwe', 'TRUSTED_ORIGINS'],
  ['trustedOrigins', 'TRUSTED_ORIGINS']
])

/** Texts of the library that concern its callers, with the texts for operators of the servers. */
const TEXTS: readonly [RegExp, string][] = [
  [/the app's `trust proxy`/, 'TRUST_PROXY'],
  [/pass a logger with debug for the reason/, 'LOG_LEVEL=debug shows the reason'],
  [/, siwe\.domains\b/, ''],
  // A key is created if RESOURCES is set.
  [/\bwithout resources, resourceKeys\b/, 'without RESOURCES'],
  [/\bprivateKey\b/g, 'PRIVATE_KEY']
]

/** Returns the variable for an option of the library; the option itself if no variable sets it. */
export function variableFor(option: string): string {
  return variableByOption.get(option) ?? option
}

/**
 * Replaces the options in a text of the library by variables. An option of one word, such as `resources`, is replaced
 * only where the text marks it as an option.
 */
export function nameVariables(text: string): string {
  const adapted = TEXTS.reduce((current, [pattern, replacement]) => current.replace(pattern, replacement), text)
  return adapted
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

/** Returns the message for the operator after a command failed. It never contains a stack trace. */
export function describeFailure(error: unknown, command = ''): string {
  if (error instanceof StartError) return error.message
  const reason = describeReasonInWords(error)
  return `${command} failed: ${getErrorCode(error) === 'ERR_CONFIG' ? nameVariables(reason) : reason}`
}
