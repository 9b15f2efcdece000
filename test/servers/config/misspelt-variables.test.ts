import { describe, expect, it } from '@jest/globals'
import { misspeltVariables } from '../../../servers/config/misspelt-variables.js'

describe('misspeltVariables', () => {
  it.each([
    ['SERVICE_ULR', 'SERVICE_URL'],
    ['SERVICE_UR', 'SERVICE_URL'],
    ['SERVICE_URLS', 'SERVICE_URL'],
    ['SERVICE_URI', 'SERVICE_URL'],
    ['PRIVATE_KEY_FILES', 'PRIVATE_KEY_FILE']
  ])('finds %s, which is one edit away from %s', (name, meant) => {
    expect(misspeltVariables({ [name]: 'x' })).toEqual([{ name, meant }])
  })

  it.each(['SERVICE_URL', 'PRIVATE_KEY_FILE', 'SERVICE', 'SERVIC_ULR', 'PAGER', 'HOSTS', 'PATH', ''])(
    'leaves %s',
    (name) => {
      expect(misspeltVariables({ [name]: 'x' })).toEqual([])
    }
  )
})
