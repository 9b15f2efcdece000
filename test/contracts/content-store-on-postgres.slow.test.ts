import { describe } from '@jest/globals'
import { usePostgresContents } from '../support/servers/postgres-contents.js'
import { contentContracts } from './content-contracts.js'

describe('on PostgreSQL', () => contentContracts(usePostgresContents()))
